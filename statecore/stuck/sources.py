"""Where what is stuck is found: each source has rows of its own, in the order they are due, and nobody is in two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Self

from django.db.models import Q, QuerySet

from ..kernel import registry
from ..kernel.clock import rfc3339
from ..kernel.entity import Entity
from ..kernel.flow import Flow
from ..kernel.ulid import is_valid_id
from . import decisions, scan
from .gauge import overdue_counts
from .recovery import found_otherwise

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
Wanted = Callable[[str], bool]


class Place(NamedTuple):
    """Where in the list somebody stands; it stays the same while they wait.

    Whoever are due at the same moment stand in the order of their sources, and in one of those as the database sorts
    their ids: its collation is its own.
    """

    due: datetime
    source: str
    pk: str

    def __str__(self) -> str:
        return ",".join((rfc3339(self.due), self.source, self.pk))

    @classmethod
    def read(cls, text: str) -> Self:
        """As it was written; a ValueError otherwise."""
        moment, source, pk = text.split(",")
        due = datetime.strptime(moment, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
        if due < EARLIEST or not is_valid_id(pk):
            raise ValueError("nobody stands there")
        return cls(due, source, pk)


class Found(NamedTuple):
    entity: Entity
    since: datetime
    place: Place
    is_decision: bool

    @property
    def key(self) -> tuple[str, str]:
        return self.entity.flow.entity_type, self.entity.pk

    def overdue(self, at: datetime) -> timedelta:
        return max(at - self.place.due, timedelta())


@dataclass(frozen=True, slots=True)
class Source:
    """Its rows are due so long after their clock."""

    name: str
    rows: QuerySet[Any]
    clock: str
    grace: timedelta = timedelta()
    is_decision: bool = False

    def after(self, place: Place | None, limit: int) -> list[Found]:
        rows = self.rows if place is None else self._beyond(place)
        return [self._found(row) for row in rows.order_by(self.clock, "pk")[:limit]]

    def _beyond(self, place: Place) -> QuerySet[Any]:
        start = place.due - self.grace
        later, then = Q(**{f"{self.clock}__gt": start}), Q(**{f"{self.clock}__gte": start})
        if self.name == place.source:
            return self.rows.filter(then & (later | Q(pk__gt=place.pk)))
        return self.rows.filter(then if self.name > place.source else later)

    def _found(self, row: Any) -> Found:
        since = getattr(row, self.clock)
        return Found(row, since, Place(since + self.grace, self.name, row.pk), self.is_decision)


def sources(at: datetime, is_wanted: Wanted) -> Iterator[Source]:
    """What is past its deadline, and who needs a decision or waits for an approval besides."""
    for kind, state, count in overdue_counts(at):
        if count and is_wanted(kind):  # rows are asked for only where there are some
            yield _late(registry.flow(kind), state, at)
    yield from _not_late(at, is_wanted)
    for name, rows in decisions.waiting().items():
        if is_wanted(rows.model.flow.entity_type):
            yield Source(name, rows, decisions.SINCE, is_decision=True)


def _late(flow: Flow, state: str, at: datetime) -> Source:
    """Needing a decision says more than being late."""
    deadline = flow.deadline(state) or timedelta()
    rows = decisions.without_the_undecided(scan.late(flow, state, at, deadline), state)
    return Source(f"late {flow.entity_type}.{state}", rows, scan.clock_field(flow, state), deadline)


def _not_late(at: datetime, is_wanted: Wanted) -> Iterator[Source]:
    """Who waits for an approval without being late."""
    for flow, state, ids in found_otherwise(at):
        if is_wanted(flow.entity_type):
            clock, deadline = scan.clock_field(flow, state), flow.deadline(state)
            rows = flow.model.objects.filter(pk__in=ids, state=state)
            rows = rows if deadline is None else rows.filter(**{f"{clock}__gte": at - deadline})
            yield Source(f"approval {flow.entity_type}.{state}", rows, clock, deadline or timedelta())
