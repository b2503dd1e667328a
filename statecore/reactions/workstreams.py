"""Reactions of workstreams: their state is derived from their tasks, gates and patches."""

from __future__ import annotations

from typing import NamedTuple

from ..kernel.actors import THE_SYSTEM
from ..kernel.refusals import GuardFailed, Unmet
from ..machines import run as runs
from ..machines import task
from ..machines.patch_ledger import PatchLedger
from ..machines.test_gate import TestGate
from ..machines.workstream import (
    ACCEPTING,
    FINAL,
    LIVE,
    WAITING,
    State,
    Workstream,
)
from ..storage.sql_params import quote_states
from ..transitions import amend
from ..transitions.unit_of_work import UnitOfWork
from .evaluation import (
    Causes,
    apply_each,
    has_current_part,
    has_linked,
    has_no_successor,
    has_part,
    related,
    related_ids,
    run_query,
)


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
    final_gate_failed: bool
    patch_open: bool
    patch_quarantined: bool
    repairs_left: bool

    def due_trigger(self) -> str | None:
        """Return the trigger that the system fires next for this workstream, if any."""
        if self.state in FINAL:
            return None
        if self.run_state in runs.FINAL:
            return "cascade_cancelled"
        if self.critical_failure:
            return "critical_task_failed"
        if self.patch_quarantined:
            return "patch_quarantined"
        return self._next_step() if self.run_state == runs.State.RUNNING else None

    def _next_step(self) -> str | None:
        match self.state:
            case State.PLANNED if self.dependency_open:
                return "dependency_unsatisfied"
            case State.PLANNED if not self.tasks_missing:
                return "tasks_created"
            case State.BLOCKED if not self.dependency_open:
                return "dependencies_met"
            case State.READY if self.task_started or (self._is_revalidated() and not self.has_tasks):
                return "first_task_started"
            case State.EXECUTING if not self.task_open and (self.has_tasks or self._is_revalidated()):
                return "all_tasks_completed"
            case State.VALIDATING if self.final_gate_failed:
                return None if self.repairs_left else "validation_failed"
            case State.VALIDATING if not (self.task_open or self.gate_open or self._lacks_patch()):
                return "validation_passed"
        return None

    def _is_revalidated(self) -> bool:
        return self.is_retry and not self.quarantined_before

    def _lacks_patch(self) -> bool:
        """Whether a patch is still in progress, or one of an earlier attempt is in quarantine."""
        return self.patch_open or self.quarantined_before


OPEN_GATE, OPEN_PATCH = (f"part.state NOT IN ({quote_states(flow.done)})" for flow in (TestGate.flow, PatchLedger.flow))
UNMET_GATE = f"{OPEN_GATE} AND NOT part.waived"
OF_ITS_TASKS = """
(SELECT count(*) FROM {{{links}}} AS link WHERE link.testgate_id = part.id
 AND (SELECT task.workstream_id FROM {{tasks}} AS task WHERE task.id = link.task_id) = part.workstream_id)
"""
# A final gate belongs to the workstream and to none of its tasks.
FAILED_FINAL_GATE = " AND ".join(
    (
        UNMET_GATE,
        "part.state = 'FAILED' AND part.reruns >= part.max_reruns",
        *(f"{OF_ITS_TASKS.format(links=each)} = 0" for each in ("exit_gates", "entry_gates")),
    )
)
# A quarantined patch whose task is not, and will not be, given out again to repair it.
LOST_PATCH = f"""
{OPEN_PATCH} AND part.state = 'quarantined' AND (
  SELECT count(*) FROM {{tasks}} AS task WHERE task.patch_id = part.id AND task.state IN ({quote_states(task.LIVE)})
  AND (task.repairs < task.max_repairs OR (task.repairs > 0 AND task.state <> 'validating'))) = 0
"""
DEPENDENCIES = ("workstream_dependencies.from_workstream_id", "workstreams.to_workstream_id")
# Patches in quarantine of the workstreams this one succeeds; the patch of a retried task does not count.
LEFT_IN_QUARANTINE = f"""
SELECT count(*) FROM {{patches}} AS patch
WHERE patch.workstream_id = line.id AND patch.state = 'quarantined' AND {has_no_successor("patches", "patch")}
AND (SELECT count(*) FROM {{tasks}} AS task
     WHERE task.patch_id = patch.id AND NOT {has_no_successor("tasks", "task")}) = 0
"""
SITUATION = f"""
SELECT workstream.id, workstream.state, run.state,
  CASE WHEN workstream.state = 'planned' AND workstream.expected_tasks IS NOT NULL
       THEN (SELECT count(*) FROM {{tasks}} AS task WHERE task.workstream_id = workstream.id)
            < workstream.expected_tasks
       ELSE false END,
  {has_linked("workstream", *DEPENDENCIES, "other.state <> 'completed'")},
  CASE WHEN workstream.state = 'ready'
       THEN {has_part("workstream", "tasks", "part.started_at IS NOT NULL")}
       ELSE false END,
  workstream.retry_of_id IS NOT NULL,
  CASE WHEN workstream.retry_of_id IS NULL THEN false ELSE EXISTS (
    WITH RECURSIVE line (id) AS (
      SELECT workstream.retry_of_id
      UNION ALL SELECT (SELECT older.retry_of_id FROM {{workstreams}} AS older WHERE older.id = line.id) FROM line
      WHERE line.id IS NOT NULL)
    SELECT 1 FROM line WHERE ({LEFT_IN_QUARANTINE}) > 0) END,
  {has_part("workstream", "tasks")},
  {has_current_part("workstream", "tasks", "part.state <> 'completed'")},
  {has_current_part("workstream", "tasks", "part.state <> 'completed' AND part.state = 'failed' AND part.is_critical")},
  {has_current_part("workstream", "gates", UNMET_GATE)},
  CASE WHEN workstream.state = 'validating'
       THEN {has_current_part("workstream", "gates", FAILED_FINAL_GATE)}
       ELSE false END,
  {has_current_part("workstream", "patches", OPEN_PATCH)},
  {has_current_part("workstream", "patches", LOST_PATCH)},
  workstream.repairs < workstream.max_repairs
FROM {{workstreams}} AS workstream JOIN {{runs}} AS run ON run.id = workstream.run_id
WHERE workstream.id {{ids}}
"""


def reevaluate(work: UnitOfWork, causes: Causes) -> None:
    """Fire the trigger that is due for each of these workstreams."""
    found = [Situation(*row) for row in run_query(work, SITUATION, causes)] if causes else []
    apply_each(work, Workstream, ((each.id, each.due_trigger()) for each in found), causes, reevaluate)


def read_states(work: UnitOfWork, parents: Causes) -> dict[str, tuple[str, str]]:
    """Return the states of workstreams and of their runs, from the claim that has read them if there was one."""
    if parents.keys() <= work.parent_states.keys():
        return {pk: work.parent_states[pk] for pk in parents}
    query = (
        "SELECT workstream.id, workstream.state, run.state FROM {workstreams} AS workstream "
        "JOIN {runs} AS run ON run.id = workstream.run_id WHERE workstream.id {ids}"
    )
    return {pk: (state, run_state) for pk, state, run_state in run_query(work, query, parents)}


def admit_tasks(work: UnitOfWork, parents: Causes, *, refuses: bool) -> Causes:
    """Refuse new tasks of workstreams that start no more, and return those that a new task repairs.

    Checked under their locks, because they may just have ended. A task that is committed already is not refused.
    """
    repaired: Causes = {}
    for pk, (state, _run_state) in read_states(work, parents).items() if parents else ():
        if state == State.VALIDATING and _start_repair(work, pk):
            repaired[pk] = parents[pk]
        elif state not in ACCEPTING and refuses:
            detail = f"workstream {pk} is {state}: it takes no more tasks"
            raise GuardFailed("created", [Unmet("workstream_takes_no_tasks", detail, pk, Workstream.flow.entity_type)])
    return repaired


def _start_repair(work: UnitOfWork, workstream_id: str) -> bool:
    """Count a repair if the workstream waits for one; return whether it does."""
    workstream = work.lock(Workstream, workstream_id)
    if not workstream.awaits_repair():
        return False
    repairs = {"repairs": workstream.repairs + 1}
    amend(work, workstream, repairs, actor=THE_SYSTEM, reason="a new task repairs a failed final gate")
    return True


def waiting_for_workstreams(work: UnitOfWork, completed: Causes) -> Causes:
    """Return the waiting workstreams that depend on one of these."""
    query = (
        "SELECT link.from_workstream_id, link.to_workstream_id FROM {workstream_dependencies} AS link "
        "JOIN {workstreams} AS workstream ON workstream.id = link.from_workstream_id "
        f"WHERE link.to_workstream_id {{ids}} AND workstream.state IN ({quote_states(WAITING)})"
    )
    return related(work, query, completed)


def with_successors(work: UnitOfWork, parents: Causes) -> Causes:
    """Return these workstreams and all their successors, which depend on the same patches."""
    found, newest = dict(parents), parents
    while newest:
        query = "SELECT id, retry_of_id FROM {workstreams} WHERE retry_of_id {ids}"
        newest = related(work, query, newest)
        found |= newest
    return found


def runs_awaited(work: UnitOfWork, new: Causes) -> set[str]:
    """Return the runs of the workstreams that these depend on."""
    query = (
        "SELECT DISTINCT other.run_id FROM {workstream_dependencies} AS link "
        "JOIN {workstreams} AS other ON other.id = link.to_workstream_id WHERE link.from_workstream_id {ids}"
    )
    return related_ids(work, query, new)


def of_runs(work: UnitOfWork, parents: Causes) -> Causes:
    """Return the live workstreams of these runs."""
    query = f"SELECT id, run_id FROM {{workstreams}} WHERE run_id {{ids}} AND state IN ({quote_states(LIVE)})"
    return related(work, query, parents)
