"""Checks of the rows: each matches the last event of its chain, each chain has a row, and the constraints hold.

If the last event of an entity is archived, the row is compared with its anchor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import orjson
from django.db import connection
from django.db.models import CheckConstraint, Count, F, Min, OuterRef, Subquery

from ...journal import Anchor, Event, EventKind, Position
from ...kernel import evidence, registry
from ...kernel.entity import LinkedEntity
from ...kernel.flow import Flow
from ...machines.patch_ledger import PatchLedger
from ...scheduling import agent_job_replay
from ...storage.journal_rules import ENTRY_TYPES
from ...storage.links import read_links
from .findings import ERROR, LIMIT, WARNING, Finding

LINKS_BATCH = 500


def check_rows(flow: Flow, ids: list[str] | None = None) -> Iterator[Finding]:
    """Compares all rows or the given ones with the journal.

    One statement reads row and event, so that a concurrent transition is not reported.
    """
    for entity_id, state, to_state, later_event in _select(_DISAGREEING, flow, ids):
        if to_state is None:
            detail = "the journal has no event for its version"
        elif later_event:
            detail = "the journal has events after its version"
        else:
            detail = f"its state is {state}, but its last event has the state {to_state} or another hash"
        yield Finding("row", ERROR, flow.entity_type, entity_id, detail)


def check_evidence(flow: Flow, ids: list[str] | None = None) -> Iterator[Finding]:
    """Recomputes the digest of each row and compares it with the one in its last event, or in its anchor.

    An event without a digest is a finding too, unless an earlier version wrote it, before all events with one.
    """
    its = {"entity_type": flow.entity_type, "entity_id": OuterRef("pk"), "sequence": OuterRef("version")}
    rows = flow.model.objects.annotate(
        body=Subquery(Event.objects.filter(**its).values("body")),
        last_event=Subquery(Event.objects.filter(**its).values("event_id")),
        position=Subquery(Position.objects.filter(event=OuterRef("last_event")).values("position")),
        anchored=Subquery(Anchor.objects.filter(**its).values("evidence")),
    )
    rows = rows.filter(pk__in=ids) if ids is not None else rows
    problems = ((row.pk, _find_difference(flow, row)) for row in rows.iterator(chunk_size=500))
    for pk, detail in islice(filter(itemgetter(1), problems), LIMIT):
        yield Finding("evidence", ERROR, flow.entity_type, pk, detail)


def _find_difference(flow: Flow, row: Any) -> str:
    """Returns how the row differs from the digest in its last event; empty if it agrees."""
    expected = orjson.loads(row.body)["details"].get("evidence") if row.body else row.anchored
    if expected:
        agrees = expected == evidence.digest(flow.model, row.__dict__)
        return "" if agrees else "a column that carries decisions or evidence differs from the digest in its last event"
    is_older = row.body is None or (row.position is not None and row.position < _find_first_digest())
    return "" if is_older else "its last event has no digest of its evidence, although earlier events have one"


def _find_first_digest() -> float:
    """Returns the position of the first event with a digest."""
    body = Subquery(Event.objects.filter(pk=OuterRef("event")).values("body"))
    found = Position.objects.annotate(body=body).filter(body__contains='"evidence":"').order_by("position")
    return found.values_list("position", flat=True).first() or math.inf


def check_links(flow: Flow, ids: list[str] | None = None) -> Iterator[Finding]:
    """Compares the links of each entity with the digests in its row, which are part of its evidence.

    Entities of an earlier version without digests are left out.
    """
    if not issubclass(flow.model, LinkedEntity):
        return
    rows = flow.model.objects.exclude(link_digests="").order_by("pk")
    rows = rows.filter(pk__in=ids) if ids is not None else rows
    recorded = rows.values_list("pk", "version", "link_digests").iterator(chunk_size=LINKS_BATCH)
    batches = iter(lambda: list(islice(recorded, LINKS_BATCH)), [])
    different = chain.from_iterable(_with_other_links(flow, batch) for batch in batches)
    for pk in islice(different, LIMIT):
        yield Finding("links", ERROR, flow.entity_type, pk, "its links differ from their digests in its row")


def _with_other_links(flow: Flow, recorded: list[tuple[str, int, str]]) -> list[str]:
    """Returns the ids of entities with links that differ; not of those that changed while their links were read."""
    links = read_links(flow.model, [pk for pk, _, _ in recorded])
    versions = {pk: version for pk, version, digests in recorded if digests != evidence.digest_links(links[pk])}
    unchanged = flow.model.objects.filter(pk__in=list(versions)).values_list("pk", "version") if versions else ()
    return sorted(pk for pk, version in unchanged if versions[pk] == version)


def check_diffs() -> Iterator[Finding]:
    """Compares each diff with the hash in the patch ledger."""
    entries = PatchLedger.objects.exclude(diff_sha256="").select_related("patch").only("diff_sha256", "patch__diff")
    changed = (entry for entry in entries.iterator(chunk_size=100) if entry.patch.sha256 != entry.diff_sha256)
    for entry in islice(changed, LIMIT):
        yield Finding("diff", ERROR, PatchLedger.flow.entity_type, entry.pk, "its diff differs from the recorded hash")


def check_orphaned_chains(flow: Flow, ids: list[str] | None = None) -> Iterator[Finding]:
    for (entity_id,) in (*_select(_ORPHANED, flow, ids), *_select(_ORPHANED_ANCHORS, flow, ids)):
        yield Finding("row", ERROR, flow.entity_type, entity_id, "it has events, but no row")


def check_final_states(flow: Flow) -> Iterator[Finding]:
    """Reports every event that left a final state, except by a declared exit."""
    exits = flow.final_exits()
    left = Event.objects.filter(entity_type=flow.entity_type, from_state__in=flow.final)
    left = left.exclude(kind=EventKind.EDITED, to_state=F("from_state"))
    for entity_id, from_state, to_state in left.values_list("entity_id", "from_state", "to_state").iterator():
        if (from_state, to_state) not in exits:
            detail = f"it left the final state {from_state} for {to_state}"
            yield Finding("final", ERROR, flow.entity_type, entity_id, detail)


def check_transitions(flow: Flow) -> Iterator[Finding]:
    """Reports undeclared transitions as warnings: an earlier version may have declared them."""
    edits = Event.objects.filter(entity_type=flow.entity_type, kind=EventKind.EDITED).exclude(to_state=F("from_state"))
    for entity_id in edits.values_list("entity_id", flat=True)[:LIMIT]:
        yield Finding("transition", ERROR, flow.entity_type, entity_id, "an edit changed its state")
    declared = {(each.trigger, source, each.target) for each in flow.transitions for source in each.sources}
    events = Event.objects.filter(entity_type=flow.entity_type, kind__in=(EventKind.NORMAL, EventKind.PROPAGATED))
    grouped = events.order_by().values_list("trigger", "from_state", "to_state").annotate(one=Min("entity_id"))
    for trigger, from_state, to_state, entity_id in grouped:
        if (trigger, from_state, to_state) not in declared:
            detail = f"its transition {trigger} from {from_state} to {to_state} is not declared"
            yield Finding("transition", WARNING, flow.entity_type, entity_id, detail)


def check_machines() -> Iterator[Finding]:
    """Reports events of machines that this version does not have."""
    known = [*ENTRY_TYPES, *(flow.entity_type for flow in registry.flows())]
    unknown = Event.objects.exclude(entity_type__in=known).order_by("event_id").values_list("entity_type", "entity_id")
    for entity_type, entity_id in unknown[:LIMIT]:
        yield Finding("machine", WARNING, entity_type, entity_id, "there is no such machine")


def check_unique_ids(flow: Flow) -> Iterator[Finding]:
    """The primary key ensures this, unless its index is corrupt."""
    duplicates = flow.model.objects.values("pk").annotate(rows=Count("*")).filter(rows__gt=1)
    for pk in duplicates.values_list("pk", flat=True)[:LIMIT]:
        yield Finding("unique", ERROR, flow.entity_type, pk, "several rows have this id")


def check_constraints(flow: Flow) -> Iterator[Finding]:
    """The database enforces them, unless they were lost when a dump was restored or a table rebuilt."""
    for constraint in flow.model._meta.constraints:
        if isinstance(constraint, CheckConstraint):
            for pk in flow.model.objects.exclude(constraint.condition).values_list("pk", flat=True)[:LIMIT]:
                yield Finding(constraint.name, ERROR, flow.entity_type, pk, f"it violates {constraint.name}")


def check_agent_job_logs() -> Iterator[Finding]:
    for mismatch in agent_job_replay.find_mismatches():
        detail = f"its state is {mismatch.column}, but its log results in {mismatch.replayed or 'no state'}"
        yield Finding("log", ERROR, "agent_job", mismatch.job_id, detail)
    for violation in agent_job_replay.find_violations():
        yield Finding(violation.invariant, ERROR, "agent_job", violation.job_id, violation.sentence)


_DISAGREEING = """
    SELECT row.id, row.state, coalesce(last.to_state, anchor.to_state), later.event_id FROM {table} AS row
    LEFT JOIN {events} AS last
      ON last.entity_type = %s AND last.entity_id = row.id AND last.sequence = row.version
    LEFT JOIN {anchors} AS anchor
      ON anchor.entity_type = %s AND anchor.entity_id = row.id AND anchor.sequence = row.version
    LEFT JOIN {events} AS later
      ON later.entity_type = %s AND later.entity_id = row.id AND later.sequence = row.version + 1
    WHERE (coalesce(last.event_id, anchor.event_id) IS NULL OR later.event_id IS NOT NULL
       OR coalesce(last.hash, anchor.hash) <> row.chain_head
       OR coalesce(last.to_state, anchor.to_state) <> row.state) {among}
    ORDER BY row.id LIMIT {limit}
"""

_ORPHANED = """
    SELECT entity_id FROM {events} WHERE entity_type = %s AND sequence = 1
    AND NOT EXISTS (SELECT 1 FROM {table} AS row WHERE row.id = entity_id) {among} ORDER BY entity_id LIMIT {limit}
"""

_ORPHANED_ANCHORS = """
    SELECT DISTINCT entity_id FROM {anchors} WHERE entity_type = %s
    AND NOT EXISTS (SELECT 1 FROM {table} AS row WHERE row.id = entity_id) {among} ORDER BY entity_id LIMIT {limit}
"""


def _select(query: str, flow: Flow, ids: list[str] | None = None) -> list[tuple[Any, ...]]:
    names = {"table": flow.model._meta.db_table, "events": Event._meta.db_table, "anchors": Anchor._meta.db_table}
    marks = ", ".join(["%s"] * len(ids or ()))
    among = f"AND {'row.id' if query is _DISAGREEING else 'entity_id'} IN ({marks})" if ids else ""
    with connection.cursor() as cursor:
        params = [flow.entity_type] * query.count("%s")
        cursor.execute(query.format(**names, limit=LIMIT, among=among), [*params, *(ids or ())])
        return list(cursor.fetchall())
