"""Reactions of tasks: blocking, queueing, completing and cancelling."""

from __future__ import annotations

from typing import NamedTuple

from ..kernel.transition import Guard
from ..machines import run as runs
from ..machines import workstream as workstreams
from ..machines.task import (
    FINAL,
    LIVE,
    VERIFIED,
    WAITING,
    State,
    Task,
    dependencies_are_completed,
    entry_gates_have_passed,
    exit_gates_have_passed,
    the_patch_is_verified,
)
from ..storage.sql_params import quote_states
from ..transitions.unit_of_work import UnitOfWork
from .evaluation import Causes, apply, apply_each, has_linked, related, related_ids, run_query


class Situation(NamedTuple):
    id: str
    state: str
    workstream_state: str
    run_state: str
    patch_state: str | None
    dependency_open: bool
    entry_gate_shut: bool
    exit_gate_shut: bool
    rerun_not_passed: bool
    gate_failed: bool
    gate_waived: bool
    repairs_left: bool
    workstream_repaired: bool

    def due_trigger(self) -> str | None:
        """Return the trigger that the system fires next for this task, if any."""
        if self.state in FINAL:
            return None
        if self.workstream_state in workstreams.FINAL or self.run_state in runs.FINAL:
            return "cascade_cancelled"
        if self.gate_failed:
            return None if self.state == State.BLOCKED else "gate_failed"
        if self.state == State.VALIDATING and self.patch_state == "quarantined":
            return "repair_requested" if self.repairs_left else None
        waits = self.dependency_open or self.entry_gate_shut
        if self.state == State.BLOCKED:
            return None if waits or self.rerun_not_passed else "dependency_satisfied"
        if self.state == State.PENDING and self._may_start():
            return "dependency_check_failed" if waits else "scheduler_assigned"
        if self.state == State.VALIDATING and not self.exit_gate_shut and self._patch_is_verified():
            return "validation_passed"
        return None

    def _may_start(self) -> bool:
        if self.workstream_state == workstreams.State.VALIDATING:
            return self.run_state == runs.State.RUNNING and self.workstream_repaired
        return self.run_state == runs.State.RUNNING and self.workstream_state in workstreams.WORKING

    def _patch_is_verified(self) -> bool:
        return self.patch_state is None or self.patch_state in VERIFIED


EXIT, ENTRY, GATE = "exit_gates.task_id", "entry_gates.task_id", "gates.testgate_id"
NOT_PASSED, FAILED = "other.state <> 'PASSED' AND NOT other.waived", "other.state = 'FAILED' AND NOT other.waived"
SITUATION = f"""
SELECT task.id, task.state, workstream.state, run.state, patch.state,
  {has_linked("task", "task_dependencies.from_task_id", "tasks.to_task_id", "other.state <> 'completed'")},
  {has_linked("task", ENTRY, GATE, NOT_PASSED)},
  {has_linked("task", EXIT, GATE, NOT_PASSED)},
  {has_linked("task", EXIT, GATE, f"{NOT_PASSED} AND other.retry_of_id IS NOT NULL")},
  {has_linked("task", EXIT, GATE, FAILED)} OR {has_linked("task", ENTRY, GATE, FAILED)},
  {has_linked("task", EXIT, GATE, "other.waived")} OR {has_linked("task", ENTRY, GATE, "other.waived")},
  task.repairs < task.max_repairs, workstream.repairs > 0
FROM {{tasks}} AS task
JOIN {{workstreams}} AS workstream ON workstream.id = task.workstream_id
JOIN {{runs}} AS run ON run.id = task.run_id
LEFT JOIN {{patches}} AS patch ON patch.id = task.patch_id
WHERE task.id {{ids}}
"""


# The guards of a due trigger that hold in its situation.
KNOWN: dict[str, frozenset[Guard]] = {
    "scheduler_assigned": frozenset((dependencies_are_completed, entry_gates_have_passed)),
    "validation_passed": frozenset((exit_gates_have_passed, the_patch_is_verified)),
}


def reevaluate(work: UnitOfWork, causes: Causes) -> None:
    """Fire the trigger that is due for each of these tasks."""
    found = [Situation(*row) for row in run_query(work, SITUATION, causes)] if causes else []
    due = [(each.id, each.due_trigger(), each.gate_waived) for each in found]
    apply_each(work, Task, ((pk, trigger) for pk, trigger, waived in due if not waived), causes, reevaluate, KNOWN)
    for pk, trigger, waived in due:
        if trigger and waived:
            _apply_by_waiver(work, pk, trigger, causes)


def _apply_by_waiver(work: UnitOfWork, task_id: str, trigger: str, causes: Causes) -> None:
    """Fire a trigger, and name the waived gates in its event."""
    waived: set[str] = set()
    for links in ("exit_gates", "entry_gates"):
        query = (
            f"SELECT gate.id FROM {{{links}}} AS link JOIN {{gates}} AS gate ON gate.id = link.testgate_id "
            f"WHERE link.task_id {{ids}} AND gate.waived"
        )
        waived |= related_ids(work, query, {task_id: None})
    metadata = {"waived_gates": sorted(waived)}
    apply(work, Task, trigger, {task_id: causes[task_id]}, reevaluate, metadata=metadata)


def repair(work: UnitOfWork, rejected: Causes) -> None:
    """Give these tasks out again."""
    if rejected:
        apply(work, Task, "repair_requested", rejected, reevaluate)


def waiting_for_tasks(work: UnitOfWork, completed: Causes) -> Causes:
    """Return the waiting tasks that depend on one of these."""
    return related(
        work,
        "SELECT link.from_task_id, link.to_task_id FROM {task_dependencies} AS link "
        "JOIN {tasks} AS task ON task.id = link.from_task_id "
        f"WHERE link.to_task_id {{ids}} AND task.state IN ({quote_states(WAITING)})",
        completed,
    )


def behind_gates(work: UnitOfWork, gates: Causes) -> Causes:
    """Return the live tasks that have one of these gates."""
    found: Causes = {}
    for links in ("exit_gates", "entry_gates"):
        query = (
            f"SELECT link.task_id, link.testgate_id FROM {{{links}}} AS link "
            "JOIN {tasks} AS task ON task.id = link.task_id "
            f"WHERE link.testgate_id {{ids}} AND task.state IN ({quote_states(LIVE)})"
        )
        found |= related(work, query, gates)
    return found


def rejected_by(work: UnitOfWork, gates: Causes) -> list[tuple[str, str]]:
    """Return the tasks in validation that have one of these exit gates and repairs left, each with the gate."""
    query = (
        "SELECT link.task_id, link.testgate_id FROM {exit_gates} AS link "
        "JOIN {tasks} AS task ON task.id = link.task_id "
        "WHERE link.testgate_id {ids} AND task.state = 'validating' AND task.repairs < task.max_repairs"
    )
    return run_query(work, query, gates) if gates else []


def workstreams_behind_gates(work: UnitOfWork, gates: Causes) -> set[str]:
    """Return the workstreams of the tasks that have one of these gates; a gate itself may belong to none."""
    found: set[str] = set()
    for links in ("exit_gates", "entry_gates"):
        query = (
            f"SELECT DISTINCT task.workstream_id FROM {{{links}}} AS link "
            "JOIN {tasks} AS task ON task.id = link.task_id WHERE link.testgate_id {ids}"
        )
        found |= related_ids(work, query, gates)
    return found


def gates_of(work: UnitOfWork, new: Causes) -> set[str]:
    """Return the entry and exit gates of these tasks."""
    found: set[str] = set()
    for links in ("exit_gates", "entry_gates"):
        found |= related_ids(work, f"SELECT DISTINCT testgate_id FROM {{{links}}} WHERE task_id {{ids}}", new)
    return found


def workstreams_awaited(work: UnitOfWork, new: Causes) -> set[str]:
    """Return the workstreams of the tasks that these depend on."""
    query = (
        "SELECT DISTINCT other.workstream_id FROM {task_dependencies} AS link "
        "JOIN {tasks} AS other ON other.id = link.to_task_id WHERE link.from_task_id {ids}"
    )
    return related_ids(work, query, new)


def with_patches(work: UnitOfWork, patches: Causes) -> Causes:
    return related(work, "SELECT id, patch_id FROM {tasks} WHERE patch_id {ids} AND state = 'validating'", patches)


def of_workstreams(work: UnitOfWork, parents: Causes, *states: str) -> Causes:
    """Return the live tasks of these workstreams, or only those in the given states."""
    among_states = quote_states(states or LIVE)
    return related(
        work,
        f"SELECT id, workstream_id FROM {{tasks}} WHERE workstream_id {{ids}} AND state IN ({among_states})",
        parents,
    )


def held_by(work: UnitOfWork, workers: Causes) -> Causes:
    return related(work, "SELECT id, worker_id FROM {tasks} WHERE worker_id {ids} AND state = 'running'", workers)
