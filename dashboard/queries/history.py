"""The history of one entity, newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statecore.journal import Event, EventKind
from statecore.kernel.entity import Entity
from statecore.kernel.ulid import made_after
from statecore.records import Anchor
from statecore.records.retirement import anchors_of

SIZE = 40
LONGEST_TRANSACTION = 30_000  # milliseconds
NEARBY = 5_000
PATH = 500  # events of one entity that a diagram draws its path from


def events(entity: Entity, before: int | None = None) -> tuple[list[dict[str, Any]], int | None]:
    """The events, and the sequence number to go on from when there are more."""
    rows = _of(entity).order_by("-sequence")
    if before is not None:
        rows = rows.filter(sequence__lt=before)
    found = list(rows[: SIZE + 1])
    return [event.as_dict() for event in found[:SIZE]], found[SIZE - 1].sequence if len(found) > SIZE else None


def retired(entity: Entity, events: list[dict[str, Any]]) -> Anchor | None:
    """The last of the events that come before these, when they are in a file by now; asked only where some lack."""
    oldest = events[-1]["sequence"] if events else entity.version + 1
    return anchors_of(entity.flow.entity_type, entity.pk).first() if oldest > 1 else None


def path_taken(entity: Entity) -> list[tuple[str, str, bool]]:
    """Each step from state to state and whether it was forced, oldest first."""
    rows = _of(entity).order_by("-sequence").values_list("from_state", "to_state", "kind")[:PATH]
    return [(source, target, kind == EventKind.OVERRIDE) for source, target, kind in reversed(rows) if source]


def by_id(event_id: str) -> Event | None:
    return Event.objects.filter(pk=event_id).first()


def cascade(event: Event) -> list[Event]:
    """What followed from this event, down to the last consequence, in the order of its causes.

    Causes are not indexed, but all of a cascade is made within one transaction, so its ids lie close together.
    """
    begin, end = made_after(event.event_id, 0), made_after(event.event_id, LONGEST_TRANSACTION)
    near = Event.objects.filter(event_id__gte=begin, event_id__lt=end).exclude(caused_by="")
    by_cause: dict[str, list[Event]] = {}
    for each in near.order_by("event_id")[:NEARBY]:
        by_cause.setdefault(each.caused_by, []).append(each)
    return [*_below(event.event_id, by_cause)]


def _below(cause: str, by_cause: dict[str, list[Event]]) -> Iterator[Event]:
    for event in by_cause.get(cause, ()):
        yield event
        yield from _below(event.event_id, by_cause)


def _of(entity: Entity) -> Any:
    return Event.objects.filter(entity_type=entity.flow.entity_type, entity_id=entity.pk)
