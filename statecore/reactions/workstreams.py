"""What follows for workstreams: their state is derived from their tasks, gates and patches."""

from __future__ import annotations

from typing import NamedTuple

from ..door.work import current
from ..kernel.many import quoted
from ..kernel.refusals import GuardFailed, Unmet
from ..machines import run as runs
from ..machines.patch_ledger import PatchLedger
from ..machines.test_gate import TestGate
from ..machines.workstream import FINAL, LIVE, TAKING, WAITING, State, Workstream
from .causes import Causes, handed_on
from .consequences import move_each
from .look import linked, look, one_stands, stands, there_is


class Situation(NamedTuple):
    id: str
    state: str
    run_state: str
    tasks_missing: bool
    dependency_open: bool
    task_started: bool
    is_retry: bool
    quarantined_before: bool
    has_tasks: bool
    task_open: bool
    critical_failure: bool
    gate_open: bool
    patch_open: bool
    patch_quarantined: bool

    def next_move(self) -> str | None:
        """The move that follows for this workstream by itself, if any."""
        if self.state in FINAL:
            return None
        if self.run_state in runs.FINAL:
            return "cascade_cancelled"
        # Only what executes can fail; what has not begun is called off.
        if self.critical_failure:
            return "critical_task_failed" if self.state == State.EXECUTING else "cascade_cancelled"
        if self.patch_quarantined:
            has_begun = self.state in (State.EXECUTING, State.VALIDATING)
            return "patch_quarantined" if has_begun else "cascade_cancelled"
        return self._next_step() if self.run_state == runs.State.RUNNING else None

    def _next_step(self) -> str | None:
        match self.state:
            case State.PLANNED if self.dependency_open:
                return "dependency_unsatisfied"
            case State.PLANNED if not self.tasks_missing:
                return "tasks_created"
            case State.BLOCKED if not self.dependency_open:
                return "dependencies_met"
            case State.READY if self.task_started or (self._is_validated_again() and not self.has_tasks):
                return "first_task_started"
            case State.EXECUTING if not self.task_open and (self.has_tasks or self._is_validated_again()):
                return "all_tasks_completed"
            case State.VALIDATING if not (self.task_open or self.gate_open or self._is_without_a_patch()):
                return "validation_passed"
        return None

    def _is_validated_again(self) -> bool:
        return self.is_retry and not self.quarantined_before

    def _is_without_a_patch(self) -> bool:
        """One of its own that is on its way, or one that those it succeeds have lost."""
        return self.patch_open or self.quarantined_before


OPEN_GATE, OPEN_PATCH = (f"part.state NOT IN ({quoted(flow.done)})" for flow in (TestGate.flow, PatchLedger.flow))
DEPENDENCIES = ("workstream_dependencies.from_workstream_id", "workstreams.to_workstream_id")
# By one of those that it succeeds; a task done again answers for its own patch.
LEFT_IN_QUARANTINE = f"""
SELECT count(*) FROM {{patches}} AS patch
WHERE patch.workstream_id = line.id AND patch.state = 'quarantined' AND {stands("patches", "patch")}
AND (SELECT count(*) FROM {{tasks}} AS task WHERE task.patch_id = patch.id AND NOT {stands("tasks", "task")}) = 0
"""
SITUATION = f"""
SELECT workstream.id, workstream.state, run.state,
  CASE WHEN workstream.state = 'planned' AND workstream.expected_tasks IS NOT NULL
       THEN (SELECT count(*) FROM {{tasks}} AS task WHERE task.workstream_id = workstream.id)
            < workstream.expected_tasks
       ELSE false END,
  {linked("workstream", *DEPENDENCIES, "other.state <> 'completed'")},
  CASE WHEN workstream.state = 'ready'
       THEN {there_is("workstream", "tasks", "part.started_at IS NOT NULL")}
       ELSE false END,
  workstream.retry_of_id IS NOT NULL,
  CASE WHEN workstream.retry_of_id IS NULL THEN false ELSE EXISTS (
    WITH RECURSIVE line (id) AS (
      SELECT workstream.retry_of_id
      UNION ALL SELECT (SELECT older.retry_of_id FROM {{workstreams}} AS older WHERE older.id = line.id) FROM line
      WHERE line.id IS NOT NULL)
    SELECT 1 FROM line WHERE ({LEFT_IN_QUARANTINE}) > 0) END,
  {there_is("workstream", "tasks")},
  {one_stands("workstream", "tasks", "part.state <> 'completed'")},
  {one_stands("workstream", "tasks", "part.state <> 'completed' AND part.state = 'failed' AND part.is_critical")},
  {one_stands("workstream", "gates", OPEN_GATE)},
  {one_stands("workstream", "patches", OPEN_PATCH)},
  {one_stands("workstream", "patches", f"{OPEN_PATCH} AND part.state = 'quarantined'")}
FROM {{workstreams}} AS workstream JOIN {{runs}} AS run ON run.id = workstream.run_id
WHERE workstream.id {{ids}}
"""


def reconsider(causes: Causes) -> None:
    """Let each of these workstreams make the move that is open to it now."""
    found = [Situation(*row) for row in look(SITUATION, causes)] if causes else []
    move_each(Workstream, ((each.id, each.next_move()) for each in found), causes, reconsider)


def standings(parents: Causes) -> dict[str, tuple[str, str]]:
    """The states of workstreams and of their runs, as far as this piece of work has not seen them."""
    seen = current().standings
    if parents.keys() <= seen.keys():
        return {pk: seen[pk] for pk in parents}
    query = (
        "SELECT workstream.id, workstream.state, run.state FROM {workstreams} AS workstream "
        "JOIN {runs} AS run ON run.id = workstream.run_id WHERE workstream.id {ids}"
    )
    return {pk: (state, of_run) for pk, state, of_run in look(query, parents)}


def refuse_latecomers(parents: Causes) -> None:
    """A task is taken as long as its workstream can still start one. Asked under the lock: it may just have ended."""
    for pk, (state, _of_run) in standings(parents).items() if parents else ():
        if state not in TAKING:
            said = f"workstream {pk} is {state}: it takes no more tasks"
            raise GuardFailed("created", [Unmet("workstream_takes_no_tasks", said, pk, Workstream.flow.entity_type)])


def waiting_for_workstreams(completed: Causes) -> Causes:
    """Workstreams that wait for one of these."""
    if not completed:
        return {}
    query = (
        "SELECT link.from_workstream_id, link.to_workstream_id FROM {workstream_dependencies} AS link "
        "JOIN {workstreams} AS workstream ON workstream.id = link.from_workstream_id "
        f"WHERE link.to_workstream_id {{ids}} AND workstream.state IN ({quoted(WAITING)})"
    )
    return handed_on(look(query, completed), completed)


def with_heirs(parents: Causes) -> Causes:
    """These and the newest of those that succeed them, who answer for what became of their patches."""
    found, newest = dict(parents), parents
    while newest:
        query = "SELECT id, retry_of_id FROM {workstreams} WHERE retry_of_id {ids}"
        newest = handed_on(look(query, newest), newest)
        found |= newest
    return found


def runs_awaited(new: Causes) -> set[str]:
    """Where the workstreams are that these wait for."""
    query = (
        "SELECT DISTINCT other.run_id FROM {workstream_dependencies} AS link "
        "JOIN {workstreams} AS other ON other.id = link.to_workstream_id WHERE link.from_workstream_id {ids}"
    )
    return {pk for (pk,) in look(query, new)} if new else set()


def of_runs(parents: Causes) -> Causes:
    """The live workstreams of these runs."""
    if not parents:
        return {}
    query = f"SELECT id, run_id FROM {{workstreams}} WHERE run_id {{ids}} AND state IN ({quoted(LIVE)})"
    return handed_on(look(query, parents), parents)
