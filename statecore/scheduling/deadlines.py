"""Entities past the deadline of their state.

The stuck list and its alert use the expected duration, which may be learnt (expectations.py), and recoveries the
declared deadline. Both are measured from the last sign of progress: when the entity entered its state, its last
heartbeat, or the last change of its parts. An entity with a timeout is not overdue before it. There is one bounded
query for each machine and state. It reads a partial index of unfinished entities, so finished ones cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast

from django.db.models import Exists, OuterRef, Q, QuerySet

from ..kernel.constraints import is_live
from ..kernel.entity import Entity
from ..kernel.flow import Flow
from ..machines.circuit_breaker import CircuitBreaker
from ..machines.task import LIVE as LIVE_TASK
from ..machines.task import UNDER_WAY, Task
from ..machines.task import State as TaskState
from ..machines.test_gate import State as GateState
from ..machines.test_gate import TestGate
from ..machines.workstream import LIVE as LIVE_WORKSTREAM
from ..machines.workstream import STARTED, Workstream
from ..machines.workstream import State as WorkstreamState
from ..reactions.run_queues import select_full_runs
from ..records.hold import exclude_held
from ..storage.links import cached_for_batch
from .expectations import expected_duration


def get_clock_start(entity: Entity) -> datetime:
    """Return the time from which the deadline counts: the last heartbeat, or when the entity entered its state."""
    measured = getattr(entity, entity.flow.clock_field(entity.state))
    return cast(datetime, measured or entity.state_entered_at)


def compute_overdue(entity: Entity, at: datetime) -> timedelta | None:
    """Return how long an entity is past the expected time in its state and past its own timeout; None if it is not."""
    return _compute_past(entity, at, expected_duration(entity.flow, entity.state))


def _compute_past(entity: Entity, at: datetime, deadline: timedelta | None) -> timedelta | None:
    if deadline is None:
        return None
    due = max(get_clock_start(entity) + deadline, entity.expires_at() or get_clock_start(entity))
    return at - due if at > due else None


def is_stuck(entity: Entity, at: datetime) -> bool:
    """Whether an entity is past its deadline and should be recovered.

    It should not be if it waits for another, such as a task in a workstream that has not started.
    """
    deadline = entity.flow.deadline(entity.state)
    if deadline is None or _compute_past(entity, at, deadline) is None:
        return False
    flow, state = entity.flow, entity.state

    def find_stuck_ids(ids: list[str]) -> set[str]:
        batch = flow.model.objects.filter(pk__in=ids, state=state)
        return set(_exclude_waiting(flow, state, batch, at - deadline, at).values_list("pk", flat=True))

    return entity.pk in cached_for_batch(entity, (is_stuck, flow.entity_type, state, at), find_stuck_ids)


def find_overdue(flow: Flow, state: str, at: datetime, limit: int) -> list[Any]:
    """Return the entities past the declared deadline, longest overdue first, which recoveries concern."""
    deadline = flow.deadline(state)
    if deadline is None or flow.is_final(state):
        return []
    return list(select_past_deadline(flow, state, at, deadline)[:limit])


def select_stuck(
    flow: Flow, state: str, at: datetime, beyond: float = 1.0, at_least: timedelta = timedelta()
) -> QuerySet[Any]:
    """Return the entities that have made no progress for `beyond` times the expected duration, longest first."""
    expected = expected_duration(flow, state)
    if expected is None or flow.is_final(state):
        return cast("QuerySet[Any]", flow.model.objects.none())
    return select_past_deadline(flow, state, at, max(expected * beyond, at_least))


def select_past_deadline(flow: Flow, state: str, at: datetime, deadline: timedelta) -> QuerySet[Any]:
    clock = flow.clock_field(state)
    rows = flow.model.objects.filter(is_live(flow.final), state=state, **{f"{clock}__lt": at - deadline})
    return _exclude_waiting(flow, state, rows, at - deadline, at).order_by(clock)


def _exclude_waiting(flow: Flow, state: str, rows: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    if any(field.name == "abandoned" for field in flow.model._meta.concrete_fields):
        rows = rows.filter(abandoned=False)
    narrow = FILTERS.get((flow.entity_type, state))
    return narrow(rows, cutoff, at) if narrow else rows


def _keep_started_workstreams(rows: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    """Exclude tasks that are not due yet, and those of a workstream that has not started, which has a deadline."""
    started = Workstream.objects.filter(is_live(Workstream.flow.final), state__in=sorted(STARTED))
    return rows.filter(workstream__in=started).exclude(not_before__gte=at)


def _exclude_held(rows: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    """Exclude tasks that an operator keeps from being claimed: by a hold, a limit of the run, or by pausing."""
    paused = Workstream.objects.filter(state=WorkstreamState.PAUSED)
    return exclude_held(rows.exclude(workstream__in=paused).exclude(run__in=select_full_runs()), at)


def _exclude_within_timeout(column: str, rows: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    """Exclude work that its own timeout allows to go on: it may be longer than the deadline of the state."""
    return rows.exclude(**{f"{column}__gte": at})


def select_waits_elsewhere(workstream: str) -> QuerySet[Any]:
    """Return the links by which blocked tasks of a workstream wait for live tasks of others, which have deadlines."""
    links = Task.depends_on.through.objects.filter(
        from_task__workstream=OuterRef(workstream), from_task__state=TaskState.BLOCKED
    )
    others = Q(to_task__state__in=sorted(LIVE_TASK), to_task__workstream__state__in=sorted(LIVE_WORKSTREAM))
    return cast("QuerySet[Any]", links.filter(others).exclude(to_task__workstream=OuterRef(workstream)))


def _exclude_waiting_workstreams(rows: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    """Exclude workstreams in which nothing is under way because tasks of other workstreams have to end first."""
    under_way = _open_tasks().filter(workstream=OuterRef("pk"), state__in=sorted(UNDER_WAY))
    return rows.exclude(Exists(select_waits_elsewhere("pk")), ~Exists(under_way))


def _exclude_moving_workstreams(rows: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    """Exclude workstreams with progress: a task has changed since the cutoff, or a task or gate runs in time."""
    tasks, gates = _open_tasks().filter(workstream=OuterRef("pk")), TestGate.objects.filter(workstream=OuterRef("pk"))
    running = gates.filter(is_live(TestGate.flow.done), state=GateState.RUNNING, times_out_at__gte=at)
    rows = rows.exclude(Exists(_moving(tasks, cutoff, at))).exclude(Exists(running))
    return _exclude_waiting_workstreams(rows, cutoff, at)


def _exclude_moving_runs(rows: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    tasks = _open_tasks().filter(workstream__run=OuterRef("pk"))
    changed = Workstream.objects.filter(run=OuterRef("pk"), state_entered_at__gte=cutoff)
    paused = Workstream.objects.filter(run=OuterRef("pk"), state=WorkstreamState.PAUSED)
    return rows.exclude(Exists(changed)).exclude(Exists(paused)).exclude(Exists(_moving(tasks, cutoff, at)))


def _open_tasks() -> QuerySet[Any]:
    """The condition is that of the index of open tasks by workstream. Behind a completed task another one begins."""
    return cast("QuerySet[Any]", Task.objects.filter(is_live({TaskState.COMPLETED})))


def _moving(tasks: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    return tasks.filter(Q(state_entered_at__gte=cutoff) | Q(state=TaskState.RUNNING, lease_expires_at__gte=at))


def _exclude_cooling_breakers(rows: QuerySet[Any], cutoff: datetime, at: datetime) -> QuerySet[Any]:
    """Exclude breakers with a configured cooldown that exceeds the deadline. There is only one row for each tool."""
    cooling = [row.pk for row in CircuitBreaker.objects.filter(state="OPEN") if row.cools_down_at() > at]
    return rows.exclude(pk__in=cooling)


FILTERS: dict[tuple[str, str], Callable[[QuerySet[Any], datetime, datetime], QuerySet[Any]]] = {
    ("task", "pending"): _keep_started_workstreams,
    ("task", "queued"): _exclude_held,
    ("circuit_breaker", "OPEN"): _exclude_cooling_breakers,
    ("task", "running"): partial(_exclude_within_timeout, "lease_expires_at"),
    ("test_gate", "RUNNING"): partial(_exclude_within_timeout, "times_out_at"),
    ("workstream", "ready"): _exclude_waiting_workstreams,
    ("workstream", "executing"): _exclude_moving_workstreams,
    ("workstream", "validating"): _exclude_moving_workstreams,
    ("run", "pending"): partial(_exclude_within_timeout, "not_before"),
    ("run", "running"): _exclude_moving_runs,
}
