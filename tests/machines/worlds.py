"""Brings an entity of any machine into any of its states, and makes each of its transitions possible.

Entities follow declared transitions from their initial state. A transition without guards needs nothing; for others,
PREPARE makes the guards hold and SPOIL makes one fail. Both may return fields of the trigger; required fields that they
leave out get a value by type.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import time_machine

from statecore import transitions
from statecore.kernel import registry
from statecore.kernel.actors import Kind
from statecore.kernel.clock import now
from statecore.kernel.entity import Entity
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import GuardFailed
from statecore.kernel.transition import Transition
from statecore.machines.supervised_worker import MAX_RETRIES
from tests.machines.tables import TABLES
from tests.support import world

Clock = time_machine.Traveller
Setting = Callable[[Clock, Any], dict[str, Any] | None]
Key = tuple[str, str, str]  # entity type, trigger, target


def fixed_clock() -> time_machine.travel:
    """Stops the clock until a test shifts it."""
    return time_machine.travel(datetime(2026, 1, 5, 8, tzinfo=UTC), tick=False)


FILLERS: dict[type, Any] = {int: 0, float: 0.0, str: "text of a test", bool: True, dict: {}, list: []}


def flows() -> list[Flow]:
    """The machines with a table in tables.py; test_tables.py fails for one that has none."""
    return [flow for flow in registry.flows() if flow.entity_type in TABLES]


# How to create an entity of a machine with required fields.
BIRTH: dict[str, Callable[[], Any]] = {
    "run": world.run,
    "workstream": world.workstream,
    "task": world.task,
    "test_gate": world.gate,
    "patch_ledger": world.patch,
    "uet_worker": lambda: world.created("UetWorker", worker_type="executor"),
    "supervised_worker": lambda: world.created("SupervisedWorker", workspace_id="space-1"),
    "supervised_job": lambda: world.created("SupervisedJob", task_description="sort the files", depth=0),
}


def create_entity(flow: Flow) -> Any:
    birth = BIRTH.get(flow.entity_type)
    return birth() if birth else world.created(flow.model.__name__)


def bring_to(flow: Flow, state: str, clock: Clock) -> Any:
    return advance_to(create_entity(flow), state, clock)


def advance_to(entity: Any, state: str, clock: Clock) -> Any:
    """Follows the shortest path of declared transitions."""
    for move in _way(entity.flow, entity.state, state):
        entity = make(move, entity, clock).entity
    return entity


def _way(flow: Flow, start: str, goal: str) -> list[Transition]:
    ways: dict[str, list[Transition]] = {start: []}
    queue = deque([start])
    while queue and goal not in ways:
        state = queue.popleft()
        for move in flow.transitions:
            if state in move.sources and move.target not in ways:
                ways[move.target] = [*ways[state], move]
                queue.append(move.target)
    return ways[goal]


def make(move: Transition, entity: Entity, clock: Clock, kind: Kind | None = None) -> transitions.Outcome:
    """Makes this transition, as an actor of this kind or of one that the transition allows."""
    params = prepared(PREPARE, move, entity, clock)
    actor = world.actor_of_kind(kind or _default_kind(move))
    try:
        return transitions.transition(type(entity), entity.pk, move.trigger, actor=actor, params=params)
    except GuardFailed as refusal:
        key = (entity.flow.entity_type, move.trigger, move.target)
        raise AssertionError(f"{refusal}: PREPARE in {__file__} must make the guards of {key} hold") from refusal


def prepared(table: dict[Key, Setting], move: Transition, entity: Entity, clock: Clock) -> dict[str, Any]:
    setting = table.get((entity.flow.entity_type, move.trigger, move.target))
    given = (setting(clock, entity) if setting else None) or {}
    return fillers(move) | lease(move, entity) | given


def fillers(move: Transition) -> dict[str, Any]:
    return {param.name: FILLERS[param.type] for param in move.params if param.required}


def lease(move: Transition, entity: Entity) -> dict[str, Any]:
    """Returns the attempt, which an agent's report must name."""
    return {"attempt": entity.attempt} if any(param.name == "attempt" for param in move.params) else {}


def _default_kind(move: Transition) -> Kind:
    return next(kind for kind in (Kind.SYSTEM, Kind.OPERATOR, Kind.AGENT) if kind in move.actors)


def _later(**duration: float) -> Setting:
    def wait(clock: Clock, entity: Any) -> None:
        clock.shift(timedelta(**duration))

    return wait


def _unchanged(clock: Clock, entity: Any) -> None:
    """Changes nothing: the guards hold, or fail, without preparation."""


def _with(**plain: Any) -> Setting:
    """Sets fields that a sweep or a heartbeat would have set."""

    def touch(clock: Clock, entity: Any) -> None:
        world.touched(entity, **plain)

    return touch


def _given(**params: Any) -> Setting:
    return lambda clock, entity: params


def _another_signal_than_awaited(clock: Clock, job: Any) -> dict[str, Any]:
    world.touched(job, waiting_for="review")
    return {"signal": "deploy"}


def _out_of_retries(clock: Clock, task: Any) -> None:
    world.touched(task, retry_count=task.max_retries)


def _its_patch_is_rejected(clock: Clock, task: Any) -> None:
    patch = world.forced(world.patch(workstream=task.workstream_id), "quarantined")
    world.touched(task, patch=patch, max_repairs=1)


def _timed_out_without_retries(clock: Clock, task: Any) -> None:
    _out_of_retries(clock, task)
    clock.shift(timedelta(hours=1))


def _out_of_retries_in_a_row(clock: Clock, worker: Any) -> None:
    world.touched(worker, retry_count=MAX_RETRIES, retry_at=now())


def _past_its_dependency_timeout(clock: Clock, task: Any) -> None:
    world.touched(task.run, on_failure="fail")
    world.touched(task, dependency_timeout_sec=1)
    clock.shift(timedelta(seconds=1))


def _nothing_can_continue(clock: Clock, run: Any) -> None:
    world.touched(run, on_failure="fail")
    world.forced(world.workstream(run=run), "failed")


def _waits_for(name: str, other: Callable[[], Any]) -> Setting:
    def link(clock: Clock, entity: Any) -> None:
        world.link(entity, name, other())

    return link


def _dependencies_become(state: str) -> Setting:
    def finish(clock: Clock, entity: Any) -> None:
        for other in entity.depends_on.exclude(state=state):
            world.forced(other, state)

    return finish


def _no_longer_waits(clock: Clock, gate: Any) -> None:
    (old,) = gate.depends_on.all()
    world.relink(gate, "depends_on", old, world.forced(world.gate(), "PASSED"))


def _due_in_an_hour(name: str) -> Setting:
    def put_off(clock: Clock, entity: Any) -> None:
        world.touched(entity, **{name: now() + timedelta(hours=1)})

    return put_off


def _with_recent_heartbeat(clock: Clock, entity: Any) -> None:
    world.touched(entity, last_heartbeat=now())


def _in_quarantine(clock: Clock, entity: Any) -> None:
    world.touched(entity, quarantined_at=now())


def _child(make_child: Callable[..., Any], parent: str, state: str, **fields: Any) -> Setting:
    def add(clock: Clock, entity: Any) -> None:
        child = make_child(**{parent: entity, **fields})
        if state != child.state:
            world.forced(child, state)

    return add


def _a_running_task(clock: Clock, workstream: Any) -> None:
    world.running_task(workstream=workstream)


def _its_tasks_complete(clock: Clock, workstream: Any) -> None:
    for task in workstream.tasks.exclude(state="completed"):
        world.forced(task, "completed")


def _an_idle_worker(clock: Clock, task: Any) -> dict[str, Any]:
    return {"worker": world.idle_worker().pk}


def _idle_supervised_worker(clock: Clock, job: Any) -> dict[str, Any]:
    return {"workers": world.idle_supervised_workers(f"{job.pk}-worker")}


def _a_worker_that_is_not_ready(clock: Clock, task: Any) -> dict[str, Any]:
    return {"worker": world.worker().pk}


def _an_executed_plan(clock: Clock, patch: Any) -> None:
    plan = {"compensation_type": "git_revert"}
    world.touched(patch, compensation_plan=plan, compensation_approved_by="eve", revert_commit="1" * 40)


def _failed_gate() -> Any:
    return world.forced(world.gate(), "FAILED")


PREPARE: dict[Key, Setting] = {
    ("run", "all_workstreams_completed", "succeeded"): _child(world.workstream, "run", "completed"),
    ("run", "critical_workstream_failed", "failed"): _child(world.workstream, "run", "failed", is_critical=True),
    ("run", "nothing_can_continue", "failed"): _nothing_can_continue,
    ("workstream", "dependency_unsatisfied", "blocked"): _waits_for("depends_on", world.workstream),
    ("workstream", "dependencies_met", "ready"): _dependencies_become("completed"),
    ("workstream", "first_task_started", "executing"): _a_running_task,
    ("workstream", "all_tasks_completed", "validating"): _its_tasks_complete,
    ("workstream", "critical_task_failed", "failed"): _child(world.task, "workstream", "failed", is_critical=True),
    ("workstream", "patch_quarantined", "failed"): _child(world.patch, "workstream", "quarantined"),
    ("workstream", "validation_failed", "failed"): _child(world.gate, "workstream", "FAILED"),
    ("workstream", "workstream_resumed", "ready"): _with(paused_from="ready"),
    ("workstream", "workstream_resumed", "executing"): _with(paused_from="executing"),
    ("workstream", "workstream_resumed", "blocked"): _with(paused_from="blocked"),
    ("task", "dependency_check_failed", "blocked"): _waits_for("depends_on", world.task),
    ("task", "gate_failed", "blocked"): _waits_for("gates", _failed_gate),
    ("task", "dependency_satisfied", "pending"): _dependencies_become("completed"),
    ("task", "dependency_timeout_exceeded", "failed"): _past_its_dependency_timeout,
    ("task", "worker_started", "running"): _an_idle_worker,
    ("task", "execution_failed", "failed"): _out_of_retries,
    ("task", "timeout_exceeded", "retrying"): _later(hours=1),
    ("task", "timeout_exceeded", "failed"): _timed_out_without_retries,
    ("task", "retry_delay_elapsed", "queued"): _later(hours=1),
    ("task", "repair_requested", "queued"): _its_patch_is_rejected,
    ("worker", "task_assigned", "busy"): _with(current_load=1),
    ("worker", "task_completed", "idle"): _with(current_load=0),
    ("worker", "health_check_timeout", "unresponsive"): _later(minutes=3),
    ("worker", "health_check_recovered", "idle"): _with_recent_heartbeat,
    ("worker", "max_timeout_exceeded", "shutdown"): _later(minutes=6),
    ("worker", "worker_resumed", "busy"): _with(suspending=True),
    ("patch_ledger", "rollback_requested", "rolled_back"): _an_executed_plan,
    ("test_gate", "dependency_gate_failed", "BLOCKED"): _waits_for("depends_on", _failed_gate),
    ("test_gate", "dependency_gate_passed", "PENDING"): _no_longer_waits,
    ("test_gate", "gate_failed", "FAILED"): _given(exit_code=1),
    ("test_gate", "timeout_exceeded", "FAILED"): _later(hours=1),
    ("circuit_breaker", "failure_threshold_exceeded", "OPEN"): _with(failure_count=5),
    ("circuit_breaker", "cooldown_expires", "HALF_OPEN"): _later(minutes=2),
    ("supervised_worker", "error_transient", "FAILED"): _out_of_retries_in_a_row,
    ("ingestion_job", "start", "running"): _later(minutes=2),
    ("supervised_job", "allocate_resources", "RUNNING"): _idle_supervised_worker,
}


# Makes a guard of each guarded transition fail.
def _forbidden_by_its_phase(clock: Clock, entry: Any) -> None:
    type(entry.phase).objects.filter(pk=entry.phase_id).update(forbidden_paths=["*"])


SPOIL: dict[Key, Setting] = {
    ("run", "run_started", "running"): _due_in_an_hour("not_before"),
    ("run", "all_workstreams_completed", "succeeded"): _child(world.workstream, "run", "planned"),
    ("run", "critical_workstream_failed", "failed"): _child(world.workstream, "run", "failed"),
    ("run", "nothing_can_continue", "failed"): _child(world.workstream, "run", "planned"),
    ("workstream", "tasks_created", "ready"): _with(expected_tasks=3),
    ("workstream", "dependency_unsatisfied", "blocked"): _unchanged,
    ("workstream", "dependencies_met", "ready"): _unchanged,
    ("workstream", "first_task_started", "executing"): _child(world.task, "workstream", "pending"),
    ("workstream", "all_tasks_completed", "validating"): _unchanged,
    ("workstream", "critical_task_failed", "failed"): _child(world.task, "workstream", "failed"),
    ("workstream", "patch_quarantined", "failed"): _child(world.patch, "workstream", "created"),
    ("workstream", "validation_passed", "completed"): _child(world.patch, "workstream", "verified"),
    ("workstream", "validation_failed", "failed"): _child(world.gate, "workstream", "PASSED"),
    ("workstream", "workstream_paused", "paused"): _given(until="2020-01-01T00:00:00Z"),
    ("workstream", "workstream_resumed", "ready"): _with(paused_from="planned"),
    ("workstream", "workstream_resumed", "executing"): _with(paused_from="planned"),
    ("workstream", "workstream_resumed", "blocked"): _with(paused_from="planned"),
    ("task", "scheduler_assigned", "queued"): _waits_for("depends_on", world.task),
    ("task", "dependency_check_failed", "blocked"): _unchanged,
    ("task", "gate_failed", "blocked"): _waits_for("gates", world.gate),
    ("task", "dependency_satisfied", "pending"): _unchanged,
    ("task", "dependency_timeout_exceeded", "failed"): _unchanged,
    ("task", "worker_started", "running"): _a_worker_that_is_not_ready,
    ("task", "execution_completed", "validating"): _given(exit_code=1),
    ("task", "execution_failed", "retrying"): _given(attempt=99),
    ("task", "execution_failed", "failed"): _given(attempt=99),
    ("task", "timeout_exceeded", "retrying"): _later(minutes=1),
    ("task", "timeout_exceeded", "failed"): _out_of_retries,
    ("task", "retry_delay_elapsed", "queued"): _unchanged,
    ("task", "repair_requested", "queued"): _with(max_repairs=1),
    ("task", "validation_passed", "completed"): _waits_for("gates", world.gate),
    ("worker", "task_assigned", "busy"): _unchanged,
    ("worker", "task_completed", "idle"): _unchanged,
    ("worker", "health_check_timeout", "unresponsive"): _later(minutes=1),
    ("worker", "health_check_recovered", "idle"): _unchanged,
    ("worker", "max_timeout_exceeded", "shutdown"): _with_recent_heartbeat,
    ("worker", "worker_suspended", "suspended"): _given(until="2020-01-01T00:00:00Z"),
    ("worker", "worker_suspended", "busy"): _given(until="2020-01-01T00:00:00Z"),
    ("worker", "worker_resumed", "busy"): _unchanged,
    ("patch_ledger", "validation_passed", "validated"): _given(scope_passed=False),
    ("patch_ledger", "accepted_for_merge", "queued"): _forbidden_by_its_phase,
    ("patch_ledger", "apply_retried", "queued"): _with(apply_retries=3),
    ("patch_ledger", "rollback_requested", "rolled_back"): _unchanged,
    ("test_gate", "gate_started", "RUNNING"): _waits_for("depends_on", world.gate),
    ("test_gate", "dependency_gate_failed", "BLOCKED"): _waits_for("depends_on", world.gate),
    ("test_gate", "dependency_gate_passed", "PENDING"): _unchanged,
    ("test_gate", "gate_passed", "PASSED"): _given(exit_code=1),
    ("test_gate", "gate_failed", "FAILED"): _given(exit_code=0),
    ("test_gate", "timeout_exceeded", "FAILED"): _later(minutes=1),
    ("circuit_breaker", "failure_threshold_exceeded", "OPEN"): _with(failure_count=4),
    ("circuit_breaker", "cooldown_expires", "HALF_OPEN"): _later(seconds=10),
    ("circuit_breaker", "success", "CLOSED"): _with(success_threshold=2),
    ("ingestion_job", "quarantine", "quarantined"): _given(attempt=99),
    ("supervised_job", "success", "COMPLETED"): _given(attempt=99),
    ("supervised_job", "error", "FAILED"): _given(attempt=99),
    ("ingestion_job", "start", "running"): _due_in_an_hour("run_after"),
    ("ingestion_job", "succeed", "succeeded"): _given(attempt=99),
    ("ingestion_job", "fail", "failed"): _given(attempt=99),
    ("ingestion_job", "retry", "pending"): _given(delay_seconds=-1),
    ("agent_job", "job_requeued", "queued"): _given(attempt=99),
    ("agent_job", "job_leased", "running"): _due_in_an_hour("retry_at"),
    ("agent_job", "job_running", "running"): _due_in_an_hour("retry_at"),
    ("agent_job", "job_waiting", "waiting"): _given(attempt=99),
    ("agent_job", "wait_completed", "queued"): _another_signal_than_awaited,
    ("agent_job", "job_completed", "completed"): _given(attempt=99),
    ("agent_job", "job_failed", "failed"): _given(attempt=99),
    ("agent_job", "job_cancelled", "cancelled"): _given(attempt=99),
    ("agent_job", "job_retry_scheduled", "retrying"): _given(delay_seconds=-1),
    ("uet_worker", "task_assigned", "BUSY"): _in_quarantine,
    ("supervised_worker", "start_task", "RUNNING"): _with(active_tasks=1),
    ("supervised_worker", "complete_tasks", "COMPLETED"): _with(pending_tasks=2),
    ("supervised_worker", "error_unrecoverable", "FAILED"): _given(retryable=True),
    ("supervised_job", "validate", "PENDING"): _with(task_description=""),
    ("supervised_job", "allocate_resources", "RUNNING"): _given(workers=[]),
    ("pipeline_job", "fail", "FAILED"): _given(error=" "),
}

# These guards cannot fail in this state: by constraints, a queued job has no date for its next attempt, and only a
# waiting or parked job has a signal that it waits for. A transient error without retries left fails the worker.
ALWAYS_HOLD = {
    ("agent_job", "job_leased", "queued"),
    ("agent_job", "job_running", "queued"),
    *(("agent_job", "wait_completed", state) for state in ("queued", "running", "retrying")),
    ("supervised_worker", "error_transient", "RUNNING"),
}
