"""The history of one entity, newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from django.db.models import OuterRef, Q, Subquery

from statecore.journal import Event, EventKind
from statecore.kernel.entity import Entity
from statecore.kernel.ulid import made_after
from statecore.records import Anchor, Position
from statecore.records.retirement import anchors_of

SIZE = 40
LONGEST_TRANSACTION = 30_000  # milliseconds
NEARBY = 5_000
BEHIND = 100  # positions behind an override that a list of many looks at
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
    return [*_below(event.event_id, _by_cause(near.order_by("event_id")[:NEARBY]))]


class Followed(NamedTuple):
    """How many changes followed from an event; `or_more` where it may be longer than was looked at."""

    changes: int
    or_more: bool


def followed(forced: list[dict[str, Any]], sight: Container[str]) -> dict[str, Followed]:
    """Of a page of overrides, by their ids: what followed from each for machines that may be told of.

    One query for all of them, bounded by positions: what follows is committed together with its cause or soon after,
    and stands close behind it. Where it goes on in the second half of what is looked at, it may go on beyond that.
    """
    if not forced:
        return {}
    behind = (Q(position__gt=each["position"], position__lte=each["position"] + BEHIND) for each in forced)
    rows = Position.objects.filter(reduce(or_, behind)).exclude(kind=EventKind.NORMAL)  # which has no cause
    # Not joined: where its tables were never analyzed, PostgreSQL would rather read the whole journal.
    cause = Event.objects.filter(pk=OuterRef("event_id")).values("caused_by")
    told = rows.annotate(caused_by=Subquery(cause)).values_list(
        "position", "event_id", "entity_type", "caused_by", named=True
    )
    by_cause = _by_cause(told)
    return {each["event_id"]: _counted(each, by_cause, sight) for each in forced}


def _counted(forced: dict[str, Any], by_cause: dict[str, list[Any]], sight: Container[str]) -> Followed:
    found = [*_below(forced["event_id"], by_cause)]
    goes_on = any(each.position > forced["position"] + BEHIND // 2 for each in found)
    return Followed(sum(each.entity_type in sight for each in found), goes_on)


def _by_cause(events: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for each in events:
        found.setdefault(each.caused_by, []).append(each)
    return found


def _below(cause: str, by_cause: dict[str, list[Any]]) -> Iterator[Any]:
    for event in by_cause.get(cause, ()):
        yield event
        yield from _below(event.event_id, by_cause)


def _of(entity: Entity) -> Any:
    return Event.objects.filter(entity_type=entity.flow.entity_type, entity_id=entity.pk)
