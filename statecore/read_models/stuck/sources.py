"""The sources of the stuck list: queries that each return some of its rows, ordered by when they were due.

No entity is in two sources, so the list is their merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Self, cast

from django.db.models import Exists, OuterRef, Q, QuerySet

from ...kernel import registry
from ...kernel.clock import rfc3339
from ...kernel.constraints import is_live
from ...kernel.entity import Entity
from ...kernel.flow import Flow
from ...kernel.ids import is_valid_id
from ...machines.task import LOST, UNDER_WAY, State, Task
from ...machines.test_gate import State as GateState
from ...machines.test_gate import TestGate
from ...scheduling import deadlines
from ...scheduling.expectations import expected_duration
from ...scheduling.recovery import build_approval_condition, find_awaiting_approval
from . import decisions
from .overdue import find_overdue_states

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
IsWanted = Callable[[str], bool]


class ListCursor(NamedTuple):
    """The place of an entity in the list, which stays the same as long as the entity is stuck.

    Entities due at the same moment are ordered by source and, within a source, by id in the collation of the database.
    """

    due: datetime
    source: str
    pk: str

    def __str__(self) -> str:
        return ",".join((rfc3339(self.due), self.source, self.pk))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses the result of str(); raises ValueError for any other text."""
        moment, source, pk = text.split(",")
        due = datetime.strptime(moment, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
        if due < EARLIEST or not is_valid_id(pk):
            raise ValueError("not a cursor of the stuck list")
        return cls(due, source, pk)


class Kind(StrEnum):
    OVERDUE = "overdue"
    NO_PROGRESS = "no progress"
    NEEDS_APPROVAL = "needs approval"
    NEEDS_DECISION = "needs a decision"
    BLOCKED = "blocked"  # not in the stuck list: it waits for something that is


class StuckEntity(NamedTuple):
    entity: Entity
    since: datetime
    cursor: ListCursor
    kind: Kind  # an overdue one may need an approval

    @property
    def key(self) -> tuple[str, str]:
        return self.entity.flow.entity_type, self.entity.pk

    def compute_overdue(self, at: datetime) -> timedelta:
        return max(at - self.cursor.due, timedelta())


@dataclass(frozen=True, slots=True)
class Source:
    """Some rows of the list. A row is due `grace` after the time in its `clock` field."""

    name: str
    rows: QuerySet[Any]
    clock: str
    grace: timedelta = timedelta()
    kind: Kind = Kind.OVERDUE
    # Matches the rows that wait for an approval; None if no row does.
    approval: Q | None = None

    def read_after(self, cursor: ListCursor | None, limit: int) -> list[StuckEntity]:
        rows = self.rows if cursor is None else self._filter_after(cursor)
        return [self._read_row(row) for row in rows.order_by(self.clock, "pk")[:limit]]

    def _filter_after(self, cursor: ListCursor) -> QuerySet[Any]:
        start = cursor.due - self.grace
        later, same_or_later = Q(**{f"{self.clock}__gt": start}), Q(**{f"{self.clock}__gte": start})
        if self.name == cursor.source:
            return self.rows.filter(same_or_later & (later | Q(pk__gt=cursor.pk)))
        return self.rows.filter(same_or_later if self.name > cursor.source else later)

    def _read_row(self, row: Any) -> StuckEntity:
        clock = getattr(row, self.clock)
        cursor = ListCursor(clock + self.grace, self.name, row.pk)
        since = row.progressed_at() if self.kind is Kind.NO_PROGRESS else clock
        return StuckEntity(row, since, cursor, self.kind)


def find_sources(at: datetime, is_wanted: IsWanted) -> Iterator[Source]:
    """Yields the sources: overdue entities, tasks without progress, and what waits for an approval or a decision."""
    for entity_type, state in find_overdue_states(at):
        if is_wanted(entity_type):
            yield _build_overdue_source(registry.flow(entity_type), state, at)
    if is_wanted(Task.flow.entity_type):
        yield _build_progress_source(at)
    yield from _build_approval_sources(at, is_wanted)
    yield from (each for each in find_decision_sources() if is_wanted(each.rows.model.flow.entity_type))


def _build_progress_source(at: datetime) -> Source:
    return Source("progress task", select_without_progress(at), "progress_due_at", kind=Kind.NO_PROGRESS)


def select_without_progress(at: datetime) -> QuerySet[Any]:
    """Returns the tasks whose agent is alive and reports the same progress for too long, without the overdue ones."""
    rows = Task.objects.filter(is_live(Task.flow.final), state=State.RUNNING, progress_due_at__lt=at)
    overdue = deadlines.select_stuck(Task.flow, State.RUNNING, at).order_by().values("pk")
    return cast("QuerySet[Any]", rows.exclude(pk__in=overdue))


def find_decision_sources() -> Iterator[Source]:
    for name, rows in decisions.find_undecided().items():
        yield Source(name, rows, decisions.SINCE, kind=Kind.NEEDS_DECISION)


def find_blocked_source() -> Source:
    """Returns the tasks that nothing under way will unblock, without those that need a decision themselves."""
    rows = decisions.exclude_undecided(select_hopelessly_blocked(), State.BLOCKED)
    return Source("blocked task", rows, "state_entered_at", kind=Kind.BLOCKED)


def select_hopelessly_blocked() -> QuerySet[Any]:
    """Returns the blocked tasks of workstreams with a lost task or a failed gate, or in which nothing continues.

    Tasks of other workstreams that these wait for are counted there.
    """
    siblings = Task.objects.filter(workstream=OuterRef("workstream"))
    under_way = siblings.filter(is_live({State.COMPLETED}), state__in=UNDER_WAY)
    lost = siblings.filter(state__in=LOST, successor=None)
    failed = TestGate.objects.filter(workstream=OuterRef("workstream"), state=GateState.FAILED, successor=None)
    elsewhere = deadlines.select_waits_elsewhere("workstream")
    blocked: QuerySet[Any] = Task.objects.filter(is_live(Task.flow.final), state=State.BLOCKED)
    is_stopped = ~Exists(under_way) & ~Exists(elsewhere)
    return blocked.filter(is_stopped | Exists(lost) | Exists(failed.filter(waived=False)))


def _build_overdue_source(flow: Flow, state: str, at: datetime) -> Source:
    """Returns the overdue entities of a state, without those that need a decision and are in another source."""
    deadline = expected_duration(flow, state) or timedelta()
    rows = decisions.exclude_undecided(deadlines.select_past_deadline(flow, state, at, deadline), state)
    approval = build_approval_condition(flow.entity_type, state, at)
    clock = flow.clock_field(state)
    return Source(f"late {flow.entity_type}.{state}", rows, clock, deadline, approval=approval)


def _build_approval_sources(at: datetime, is_wanted: IsWanted) -> Iterator[Source]:
    """Yields a source for each state with entities that wait for an approval but are not overdue."""
    for flow, state, ids in find_awaiting_approval(at):
        if is_wanted(flow.entity_type):
            clock, deadline = flow.clock_field(state), expected_duration(flow, state)
            rows = flow.model.objects.filter(pk__in=ids, state=state)
            rows = rows if deadline is None else rows.filter(**{f"{clock}__gte": at - deadline})
            yield Source(f"approval {flow.entity_type}.{state}", rows, clock, deadline or timedelta(), approval=Q())
