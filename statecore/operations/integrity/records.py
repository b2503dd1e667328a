"""Compares requests for approval, decisions, audit notes, phases and templates with the entries that cover them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import orjson
from django.db.models import Count, Max, Min, OuterRef, Subquery

from ...journal import ArchivedRange, Event, accounts
from ...journal.accounts import Action
from ...records import Approval, ApprovalDecision, AuditNote, Phase, PlanTemplate
from ...records.journaled import JournaledRecord
from .findings import LIMIT, Finding, build_journal_error

# The records, and the actions of the entries that cover them.
ACTIONS: dict[type[JournaledRecord], tuple[Action, ...]] = {
    Approval: (Action.APPROVAL_REQUESTED,),
    ApprovalDecision: (Action.APPROVAL_DECIDED,),
    AuditNote: (Action.OVERRIDE_REFUSED, Action.ARCHIVED),
    PlanTemplate: (Action.TEMPLATE_STORED,),
}


def check_records(latest: int | None = None) -> Iterator[Finding]:
    """Verifies all records and their entries, or only the latest records of each kind."""
    for model, actions in ACTIONS.items():
        yield from islice(_find_uncovered(model, latest), LIMIT)
        if latest is None:
            yield from islice(_find_others(model, actions), LIMIT)


def _find_uncovered(model: Any, latest: int | None) -> Iterator[Finding]:
    """Yields the records that differ from their entry, or whose entry is missing and was not archived."""
    archived_until = ArchivedRange.objects.aggregate(last=Max("until"))["last"]
    body = Event.objects.filter(pk=OuterRef("journal_entry")).values("body")
    rows = model.objects.exclude(journal_entry="").annotate(body=Subquery(body)).order_by("-pk")[:latest]
    for row in rows.iterator(chunk_size=500):
        # An entry is never older than its record. Ids do not decide: within a millisecond they have no order.
        if row.body is None and (archived_until is None or row.get_time() > archived_until):
            yield _build_finding(row, "has no entry in the journal")
        elif row.body is not None and orjson.loads(row.body)["details"]["metadata"].get("digest") != row.digest():
            yield _build_finding(row, "differs from its entry in the journal")


def _find_others(model: Any, actions: tuple[Action, ...]) -> Iterator[Finding]:
    """Yields records that name no entry, or the entry of another one, and entries without a record.

    Records of an earlier version name none; all others came later.
    """
    covered = model.objects.exclude(journal_entry="")
    first = covered.aggregate(first=Min("pk"))["first"]
    for row in model.objects.filter(journal_entry="", pk__gt=first) if first is not None else ():
        yield _build_finding(row, "names no entry of the journal")
    shared = covered.values("journal_entry").annotate(number=Count("pk")).filter(number__gt=1)
    for row in covered.filter(journal_entry__in=shared.values("journal_entry")):
        yield _build_finding(row, "has the entry of another record")
    entries = Event.objects.filter(entity_type=accounts.ENTITY_TYPE, trigger__in=actions)
    for event_id in entries.exclude(pk__in=covered.values("journal_entry")).values_list("pk", flat=True):
        yield build_journal_error("record", f"the record of the entry {event_id} is missing")


def check_phases() -> Iterator[Finding]:
    """Compares each phase with its last entry in the journal; not if the entry was archived, or never written."""
    changes = (Action.PHASE_CREATED, Action.PHASE_CHANGED)
    entries = Event.objects.filter(entity_type=accounts.ENTITY_TYPE, trigger__in=changes).order_by("timestamp", "pk")
    last = {facts["phase"]: facts["digest"] for facts in map(_read_facts, entries.values_list("body", flat=True))}
    phases = Phase.objects.in_bulk(list(last))
    for pk, digest in last.items():
        if pk not in phases:
            yield build_journal_error("record", f"phase {pk} is missing")
        elif phases[pk].digest() != digest:
            yield _build_finding(phases[pk], "differs from its last entry in the journal")


def _read_facts(body: str) -> dict[str, Any]:
    return dict(orjson.loads(body)["details"]["metadata"])


def _build_finding(row: Any, sentence: str) -> Finding:
    return build_journal_error("record", f"{row._meta.verbose_name} {row.pk} ({row}) {sentence}")
