"""What follows for tasks."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..kernel.links import question
from ..kernel.many import quoted
from ..machines import run as runs
from ..machines import workstream as workstreams
from ..machines.task import FINAL, LIVE, VERIFIED, WAITING, State, Task
from .causes import Causes, handed_on
from .consequences import move_each
from .look import linked, look


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

    def next_move(self) -> str | None:
        """The move that follows for this task by itself, if any."""
        if self.state in FINAL:
            return None
        if self.workstream_state in workstreams.FINAL or self.run_state in runs.FINAL:
            return "cascade_cancelled"
        if self.gate_failed:
            return None if self.state == State.BLOCKED else "gate_failed"
        waits = self.dependency_open or self.entry_gate_shut
        if self.state == State.BLOCKED:
            return None if waits or self.rerun_not_passed else "dependency_satisfied"
        if self.state == State.PENDING and self._is_wanted():
            return "dependency_check_failed" if waits else "scheduler_assigned"
        if self.state == State.VALIDATING and not self.exit_gate_shut and self._patch_is_verified():
            return "validation_passed"
        return None

    def _is_wanted(self) -> bool:
        return self.run_state == runs.State.RUNNING and self.workstream_state in workstreams.WORKING

    def _patch_is_verified(self) -> bool:
        return self.patch_state is None or self.patch_state in VERIFIED


EXIT, ENTRY, GATE = "exit_gates.task_id", "entry_gates.task_id", "gates.testgate_id"
SITUATION = f"""
SELECT task.id, task.state, workstream.state, run.state, patch.state,
  {linked("task", "task_dependencies.from_task_id", "tasks.to_task_id", "other.state <> 'completed'")},
  {linked("task", ENTRY, GATE, "other.state <> 'PASSED'")},
  {linked("task", EXIT, GATE, "other.state <> 'PASSED'")},
  {linked("task", EXIT, GATE, "other.state <> 'PASSED' AND other.retry_of_id IS NOT NULL")},
  {linked("task", EXIT, GATE, "other.state = 'FAILED'")} OR {linked("task", ENTRY, GATE, "other.state = 'FAILED'")}
FROM {{tasks}} AS task
JOIN {{workstreams}} AS workstream ON workstream.id = task.workstream_id
JOIN {{runs}} AS run ON run.id = task.run_id
LEFT JOIN {{patches}} AS patch ON patch.id = task.patch_id
WHERE task.id {{ids}}
"""


# What a situation has answered before the guards ask.
SEEN: dict[str, dict[Any, Any]] = {
    "scheduler_assigned": {
        question(Task, "depends_on", "<>", State.COMPLETED): {},
        question(Task, "entry_gates", "<>", "PASSED"): {},
    },
    "validation_passed": {question(Task, "gates", "<>", "PASSED"): {}},
}


def reconsider(causes: Causes) -> None:
    """Let each of these tasks make the move that is open to it now."""
    found = [Situation(*row) for row in look(SITUATION, causes)] if causes else []
    move_each(Task, ((each.id, each.next_move()) for each in found), causes, reconsider, SEEN)


def waiting_for_tasks(completed: Causes) -> Causes:
    """Tasks that wait for one of these."""
    return _found(
        "SELECT link.from_task_id, link.to_task_id FROM {task_dependencies} AS link "
        "JOIN {tasks} AS task ON task.id = link.from_task_id "
        f"WHERE link.to_task_id {{ids}} AND task.state IN ({quoted(WAITING)})",
        completed,
    )


def behind_gates(gates: Causes) -> Causes:
    """Live tasks that one of these gates lets in or out."""
    found: Causes = {}
    for links in ("exit_gates", "entry_gates"):
        query = (
            f"SELECT link.task_id, link.testgate_id FROM {{{links}}} AS link "
            "JOIN {tasks} AS task ON task.id = link.task_id "
            f"WHERE link.testgate_id {{ids}} AND task.state IN ({quoted(LIVE)})"
        )
        found |= _found(query, gates)
    return found


def workstreams_behind_gates(gates: Causes) -> set[str]:
    """Where the tasks are that one of these gates lets in or out; a gate may belong to no workstream itself."""
    found: set[str] = set()
    for links in ("exit_gates", "entry_gates"):
        query = (
            f"SELECT DISTINCT task.workstream_id FROM {{{links}}} AS link "
            "JOIN {tasks} AS task ON task.id = link.task_id WHERE link.testgate_id {ids}"
        )
        found.update(pk for (pk,) in look(query, gates))
    return found


def gates_of(new: Causes) -> set[str]:
    """The gates that let one of these tasks in or out."""
    found: set[str] = set()
    for links in ("exit_gates", "entry_gates") if new else ():
        found.update(pk for (pk,) in look(f"SELECT DISTINCT testgate_id FROM {{{links}}} WHERE task_id {{ids}}", new))
    return found


def workstreams_awaited(new: Causes) -> set[str]:
    """Where the tasks are that these wait for."""
    query = (
        "SELECT DISTINCT other.workstream_id FROM {task_dependencies} AS link "
        "JOIN {tasks} AS other ON other.id = link.to_task_id WHERE link.from_task_id {ids}"
    )
    return {pk for (pk,) in look(query, new)} if new else set()


def with_patches(patches: Causes) -> Causes:
    return _found("SELECT id, patch_id FROM {tasks} WHERE patch_id {ids} AND state = 'validating'", patches)


def of_workstreams(parents: Causes, *states: str) -> Causes:
    """The live tasks of these workstreams, or those in the given states only."""
    among_states = quoted(states or LIVE)
    return _found(
        f"SELECT id, workstream_id FROM {{tasks}} WHERE workstream_id {{ids}} AND state IN ({among_states})",
        parents,
    )


def held_by(workers: Causes) -> Causes:
    return _found("SELECT id, worker_id FROM {tasks} WHERE worker_id {ids} AND state = 'running'", workers)


def _found(query: str, causes: Causes) -> Causes:
    return handed_on(look(query, causes), causes) if causes else {}
