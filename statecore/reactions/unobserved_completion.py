"""Unobserved completions: a task with no dependents completes without the exclusive lock of its workstream.

It applies to a report of a task that has no gates, no patch and no dependents, while another task of its workstream has
not started: then the workstream continues, and nothing else follows. Such completions share an advisory lock of the
workstream and run concurrently; any other change takes that lock exclusively and waits for them. The plain path would
take the row lock of the workstream until the commit, and the agents of one workstream would complete one at a time.
"""

from __future__ import annotations

from ..machines.task import UNCLAIMED, State, Task
from ..machines.workstream import Workstream
from ..storage.sql_params import quote_states
from ..transitions.change import Change
from ..transitions.unit_of_work import UnitOfWork
from . import locks
from .evaluation import Causes, apply, changed, format_query, parents_of, run_query
from .tasks import KNOWN, reevaluate

# ORDER BY … LIMIT 1 shows the planner that one index entry is enough; for EXISTS it would read all completed tasks, and
# without the CASE the whole queue as long as statistics are missing.
IS_UNOBSERVED = f"""
SELECT task.workstream_id, task.patch_id IS NULL
  AND NOT EXISTS (SELECT 1 FROM {{exit_gates}} AS link WHERE link.task_id = task.id)
  AND NOT EXISTS (SELECT 1 FROM {{entry_gates}} AS link WHERE link.task_id = task.id)
  AND NOT EXISTS (SELECT 1 FROM {{task_dependencies}} AS link WHERE link.to_task_id = task.id)
  AND (SELECT true FROM {{tasks}} AS other WHERE other.workstream_id = task.workstream_id AND other.id <> task.id
       AND other.state <> 'completed' AND CASE WHEN other.state IN ({quote_states(UNCLAIMED)}) THEN true ELSE false END
       ORDER BY other.state_entered_at LIMIT 1) IS NOT NULL AS is_unobserved
FROM {{tasks}} AS task WHERE task.id {{ids}}
"""
SHARE_LOCK_IF_UNOBSERVED = f"""
WITH found AS MATERIALIZED ({IS_UNOBSERVED})
SELECT workstream_id, pg_advisory_xact_lock_shared({locks.ADVISORY_KEY.format("workstream_id")})
FROM (SELECT DISTINCT workstream_id FROM found WHERE (SELECT bool_and(is_unobserved) FROM found) ORDER BY 1) AS parent
"""


def may_share_lock(work: UnitOfWork) -> bool:
    """SQLite has a single writer, and no such lock."""
    return work.connection.vendor == "postgresql" and locks.may_wait(work, Workstream)


def count_shared_locks_sql(*, one: bool) -> str:
    """SQL for a statement that has locked tasks: shares the locks if all are unobserved, and counts them."""
    return f"(SELECT count(*) FROM ({format_query(SHARE_LOCK_IF_UNOBSERVED, one=one)}) AS shared)"


def still_unobserved_sql(*, one: bool) -> str:
    """SQL for the statement after that one: whether all are still unobserved now that the locks are held."""
    return f"(SELECT bool_and(is_unobserved) FROM ({format_query(IS_UNOBSERVED, one=one)}) AS found)"


def complete(work: UnitOfWork, changes: list[Change]) -> bool:
    """Complete these tasks if all of them are unobserved; return whether that was so."""
    validating: Causes = {}
    for change in changes:
        if (change.entry.from_state, change.entry.to_state) != REPORTED:
            return False
        validating[change.entity.pk] = change.entry
    started = {entry.entity_id for entry in work.entries if (entry.entity_type, entry.to_state) == STARTED}
    if started & validating.keys():
        # Other transactions may have counted a task that started here as one that has not started.
        return False
    if not validating.keys() <= work.unobserved and not _share_and_check(work, changes, validating, started):
        return False
    work.completing = set(validating)
    apply(work, Task, "validation_passed", validating, reevaluate, known=KNOWN["validation_passed"], flush=False)
    work.completing = set()
    return True


STARTED = ("task", State.RUNNING)
REPORTED = (State.RUNNING, State.VALIDATING)


def _share_and_check(work: UnitOfWork, changes: list[Change], validating: Causes, started: set[str]) -> bool:
    """Share the locks of the workstreams if the tasks are unobserved, and check again once the locks are held.

    The second check is needed because the transaction that held the lock before may have ended the task that had not
    started. Staged changes of the completing and the newly started tasks do not affect the answer.
    """
    own = started | validating.keys()
    others_staged = any(isinstance(each.entity, Task) and each.entity.pk not in own for each in work.pending)
    if work.connection.vendor == "postgresql" and not _share_locks(work, changes, flush=others_staged):
        return False
    found = run_query(work, IS_UNOBSERVED, validating, flush=others_staged)
    return all(is_unobserved for _workstream, is_unobserved in found)


def _share_locks(work: UnitOfWork, changes: list[Change], *, flush: bool) -> bool:
    if {(Workstream, pk) for pk in parents_of(changes, "workstream_id")} <= work.shared:
        return True
    if not may_share_lock(work):
        return False
    shared = run_query(work, SHARE_LOCK_IF_UNOBSERVED, changed(changes), flush=flush)
    work.shared.update((Workstream, pk) for pk, _lock in shared)
    return bool(shared)
