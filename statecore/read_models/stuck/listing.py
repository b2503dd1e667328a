"""The stuck list, longest overdue first, each entity with its cause and a suggested action; and the totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import QuerySet

from ...kernel import phrasing, registry
from ...kernel.actors import OPERATOR as OPERATOR_KIND
from ...kernel.clock import now, rfc3339
from ...kernel.entity import Entity
from ...kernel.flow import Rest
from ...records import Incident, IncidentEntity
from ...scheduling.expectations import expected_duration
from ...scheduling.recovery import APPROVAL, OPERATOR, Proposal, propose_recovery
from . import chain
from .overdue import count_rows
from .sources import Kind, ListCursor, Source, StuckEntity, find_decision_sources, find_sources
from .transition_checks import check_transitions
from .visibility import VisibleMachines, is_visible

DEFAULT_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Item:
    entity: Entity
    kind: Kind
    since: datetime
    deadline: timedelta | None
    overdue: timedelta
    why: str
    recovery: Proposal
    incident: Incident | None = None

    def as_dict(self) -> dict[str, Any]:
        incident = self.incident.as_dict() if self.incident else {}
        return {
            "entity_type": self.entity.flow.entity_type,
            "id": self.entity.pk,
            "state": self.entity.state,
            "kind": self.kind.value,
            "since": rfc3339(self.since),
            "deadline_seconds": self.deadline.total_seconds() if self.deadline else None,
            "overdue_seconds": self.overdue.total_seconds(),
            "why": self.why,
            "recovery": self.recovery.as_dict(),
            "incident": incident.get("id"),
            "acknowledged_by": incident.get("acknowledged_by"),
            "acknowledged_at": incident.get("acknowledged_at"),
        }


class Page(NamedTuple):
    items: list[Item]
    next_cursor: ListCursor | None  # of the last item; None on the last page


def list_stuck(
    limit: int = DEFAULT_LIMIT, *, entity_type: str | None = None, visible: VisibleMachines = None
) -> list[Item]:
    """Returns the entities that have been stuck longest, of all visible machines or of one."""
    return read_page(limit, entity_type=entity_type, visible=visible).items


def read_page(
    limit: int = DEFAULT_LIMIT,
    *,
    after: ListCursor | None = None,
    entity_type: str | None = None,
    visible: VisibleMachines = None,
) -> Page:
    """Returns a page of the stuck list.

    The place of an entity does not change while it is stuck, so a reader of all pages misses none and sees none twice.
    """
    at = now()
    return _read_sources(find_sources(at, _make_filter(entity_type, visible)), limit, at, after=after, visible=visible)


def list_decisions(at: datetime, limit: int) -> list[Item]:
    """Returns the entities that wait for an operator's decision, longest first."""
    return _read_sources(find_decision_sources(), limit, at).items


def _read_sources(
    sources: Iterable[Source],
    limit: int,
    at: datetime,
    *,
    after: ListCursor | None = None,
    visible: VisibleMachines = None,
) -> Page:
    found = [one for source in sources for one in source.read_after(after, limit + 1)]
    # Not sorted by id: within a source the order of the database is kept.
    longest = sorted(found, key=lambda one: one.cursor[:2])[:limit]
    return Page(make_items(longest, at, visible), longest[-1].cursor if len(found) > limit else None)


def _make_filter(entity_type: str | None, visible: VisibleMachines) -> Callable[[str], bool]:
    wanted = None if entity_type is None else registry.flow(entity_type).entity_type
    return lambda machine: wanted in (None, machine) and is_visible(visible, machine)


def make_items(found: list[StuckEntity], at: datetime, visible: VisibleMachines = None) -> list[Item]:
    """Returns the items in the order of `found`. Entities of one machine share the queries for their recoveries."""
    chains = chain.find_chains((one.entity for one in found), at, visible)
    incidents = _find_incidents(found)
    made: dict[tuple[str, str], Item] = {}
    for group in chain.group_by_machine(zip(found, chains, strict=True), lambda each: each[0].entity):
        chain.load_together([one.entity for one, _links in group])
        made |= {one.key: _make_item(one, at, links, incidents.get(one.key)) for one, links in group}
    return [made[one.key] for one in found]


def _find_incidents(found: list[StuckEntity]) -> dict[tuple[str, str], Incident]:
    rows = IncidentEntity.objects.select_related("incident").filter(
        entity_type__in={one.key[0] for one in found}, entity_id__in=[one.entity.pk for one in found]
    )
    return {(row.entity_type, row.entity_id): row.incident for row in rows}


def _make_item(one: StuckEntity, at: datetime, links: list[chain.Link], incident: Incident | None) -> Item:
    entity, kind = one.entity, one.kind
    has_deadline = kind is Kind.OVERDUE
    proposal = propose_recovery(entity, at) if has_deadline else None
    if proposal and proposal.mode == APPROVAL:
        kind = Kind.NEEDS_APPROVAL
    return Item(
        entity=entity,
        kind=kind,
        since=one.since,
        deadline=expected_duration(entity.flow, entity.state) if has_deadline else None,
        overdue=one.compute_overdue(at),
        why=chain.format_sentence(links),
        recovery=proposal or _suggest_manual_action(entity, links, at),
        incident=incident,
    )


def _suggest_manual_action(entity: Entity, links: list[chain.Link], at: datetime) -> Proposal:
    """Suggests to retry the root cause if it has ended, to fire a trigger that operators may fire, or to override."""
    root = links[-1].entity
    final_root = root if root.flow.is_final(root.state) else None
    retries = [f"retry {phrasing.describe_entity(root)}"] if final_root else []
    checks = check_transitions(entity, at, by=OPERATOR_KIND)
    # A state in which it may rest would only postpone the decision.
    decisive = (check for check in checks if not isinstance(entity.flow.timing.get(check.to_state), Rest))
    triggers = tuple(dict.fromkeys(check.trigger for check in decisive if check.allowed and not check.needs))
    return Proposal(" or ".join([*retries, *triggers, "override"]), OPERATOR, triggers, final_root)


Totals = Counter[tuple[str, Kind]]


def count_stuck(at: datetime, *, entity_type: str | None = None, visible: VisibleMachines = None) -> Totals:
    """Returns the exact length of the whole list by entity type and kind."""
    totals: Totals = Counter()
    for machine, kind, count in count_rows(_list_rows_by_kind(find_sources(at, _make_filter(entity_type, visible)))):
        totals[machine, Kind(kind)] += count
        if kind == Kind.NEEDS_APPROVAL:  # these rows were counted as overdue as well
            totals[machine, Kind.OVERDUE] -= count
    return totals


def _list_rows_by_kind(sources: Iterable[Source]) -> Iterator[tuple[tuple[str, str], QuerySet[Any]]]:
    for source in sources:
        machine, rows = source.rows.model.flow.entity_type, source.rows.order_by().values_list("pk")
        yield (machine, source.kind), rows
        if source.approval is not None:
            yield (machine, Kind.NEEDS_APPROVAL), rows.filter(source.approval)
