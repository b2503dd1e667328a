"""Events of one entity, the steps it took, and what followed from an event."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from django.db.models import OuterRef, Q, Subquery

from statecore.journal import Anchor, Event, EventKind, Position
from statecore.journal.archive import list_anchors
from statecore.kernel.entity import Entity
from statecore.kernel.ids import id_prefix_after

PAGE_SIZE = 40
MAX_TRANSACTION = 30_000  # milliseconds
MAX_NEARBY = 5_000
WINDOW = 100  # positions after an override in which its consequences are searched
MAX_STEPS = 500  # events of one entity from which a diagram draws its path


def list_events(entity: Entity, before: int | None = None) -> tuple[list[dict[str, Any]], int | None]:
    """Newest first, with the sequence number to continue from when more follow."""
    rows = _events_of(entity).order_by("-sequence")
    if before is not None:
        rows = rows.filter(sequence__lt=before)
    found = list(rows[: PAGE_SIZE + 1])
    return [event.as_dict() for event in found[:PAGE_SIZE]], found[PAGE_SIZE - 1].sequence if len(
        found
    ) > PAGE_SIZE else None


def find_archived(entity: Entity, events: list[dict[str, Any]]) -> Anchor | None:
    """The anchor of archived events before these; queries only when the events do not reach back to the first."""
    oldest = events[-1]["sequence"] if events else entity.version + 1
    return list_anchors(entity.flow.entity_type, entity.pk).first() if oldest > 1 else None


def list_steps(entity: Entity) -> list[tuple[str, str, bool]]:
    """Each step from state to state, and whether it was forced; oldest first."""
    rows = (
        _events_of(entity)
        .exclude(kind=EventKind.EDITED)
        .order_by("-sequence")
        .values_list("from_state", "to_state", "kind")[:MAX_STEPS]
    )
    return [(source, target, kind == EventKind.OVERRIDE) for source, target, kind in reversed(rows) if source]


def find_event(event_id: str) -> Event | None:
    return Event.objects.filter(pk=event_id).first()


def list_consequences(event: Event) -> list[Event]:
    """All events caused by this one, directly or not, each after its cause.

    Causes are not indexed, but a cascade is one transaction, so the ids of its events are close together.
    """
    begin, end = id_prefix_after(event.event_id, 0), id_prefix_after(event.event_id, MAX_TRANSACTION)
    near = Event.objects.filter(event_id__gte=begin, event_id__lt=end).exclude(caused_by="")
    return [*_walk(event.event_id, _group_by_cause(near.order_by("event_id")[:MAX_NEARBY]))]


class Consequences(NamedTuple):
    """How many changes an event caused; `or_more` when the search window may have ended before the last one."""

    changes: int
    or_more: bool


def count_consequences(forced: list[dict[str, Any]], visible: Container[str]) -> dict[str, Consequences]:
    """The consequences of each override of a page, by event id, counting visible machines only.

    One query, bounded by positions: consequences are committed with their cause or soon after it. When some are in the
    second half of the window, more may follow beyond it.
    """
    if not forced:
        return {}
    after = (Q(position__gt=each["position"], position__lte=each["position"] + WINDOW) for each in forced)
    rows = Position.objects.filter(reduce(or_, after)).exclude(kind=EventKind.NORMAL)  # normal events have no cause
    # A subquery, not a join: with tables that were never analyzed, PostgreSQL would read the whole journal.
    cause = Event.objects.filter(pk=OuterRef("event_id")).values("caused_by")
    found = rows.annotate(caused_by=Subquery(cause)).values_list(
        "position", "event_id", "entity_type", "caused_by", named=True
    )
    by_cause = _group_by_cause(found)
    return {each["event_id"]: _count(each, by_cause, visible) for each in forced}


def _count(forced: dict[str, Any], by_cause: dict[str, list[Any]], visible: Container[str]) -> Consequences:
    found = [*_walk(forced["event_id"], by_cause)]
    or_more = any(each.position > forced["position"] + WINDOW // 2 for each in found)
    return Consequences(sum(each.entity_type in visible for each in found), or_more)


def _group_by_cause(events: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for each in events:
        found.setdefault(each.caused_by, []).append(each)
    return found


def _walk(cause: str, by_cause: dict[str, list[Any]]) -> Iterator[Any]:
    for event in by_cause.get(cause, ()):
        yield event
        yield from _walk(event.event_id, by_cause)


def _events_of(entity: Entity) -> Any:
    return Event.objects.filter(entity_type=entity.flow.entity_type, entity_id=entity.pk)
