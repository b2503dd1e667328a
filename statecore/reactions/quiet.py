"""Completing unnoticed: a task that nobody waits for completes beside the others of its workstream, not after them."""

from __future__ import annotations

from contextlib import nullcontext

from ..door.change import Change
from ..door.work import current
from ..kernel.links import answered
from ..kernel.many import quoted
from ..machines.task import HELD_BY_NOBODY, State, Task
from ..machines.workstream import Workstream
from . import locks
from .causes import above, own
from .consequences import move
from .look import asked, look
from .tasks import SEEN, reconsider

# Whether a task has nothing to be validated by, and nobody notices that it completes: no task waits for it, and its
# workstream goes on as long as there is another that nobody has started. (By the order the planner sees that one entry
# of the index is enough; it would look for "any" among all the tasks that are done. Without the CASE it would read the
# whole queue as well, before anybody has told it how long that is.)
QUIET = f"""
SELECT task.workstream_id, task.patch_id IS NULL
  AND NOT EXISTS (SELECT 1 FROM {{exit_gates}} AS link WHERE link.task_id = task.id)
  AND NOT EXISTS (SELECT 1 FROM {{entry_gates}} AS link WHERE link.task_id = task.id)
  AND NOT EXISTS (SELECT 1 FROM {{task_dependencies}} AS link WHERE link.to_task_id = task.id)
  AND (SELECT true FROM {{tasks}} AS other WHERE other.workstream_id = task.workstream_id AND other.id <> task.id
       AND other.state <> 'completed' AND CASE WHEN other.state IN ({quoted(HELD_BY_NOBODY)}) THEN true ELSE false END
       ORDER BY other.state_entered_at LIMIT 1) IS NOT NULL AS is_quiet
FROM {{tasks}} AS task WHERE task.id {{ids}}
"""
SHARE_IF_QUIET = f"""
WITH found AS MATERIALIZED ({QUIET})
SELECT workstream_id, pg_advisory_xact_lock_shared({locks.QUIET_LOCK.format("workstream_id")})
FROM (SELECT DISTINCT workstream_id FROM found WHERE (SELECT bool_and(is_quiet) FROM found) ORDER BY 1) AS parent
"""


def may_share() -> bool:
    """SQLite has one writer at a time, and no such lock."""
    return current().connection.vendor == "postgresql" and locks.may_wait(Workstream)


def sharing(*, one: bool) -> str:
    """For a statement that has locked tasks: of how many workstreams it shares the quiet lock from then on."""
    return f"(SELECT count(*) FROM ({asked(SHARE_IF_QUIET, one=one)}) AS shared)"


def still_quiet(*, one: bool) -> str:
    """The same question again, for the first statement after that one: will nobody notice any of them?"""
    return f"(SELECT bool_and(is_quiet) FROM ({asked(QUIET, one=one)}) AS found)"


def completed_quietly(changes: list[Change]) -> bool:
    """Complete tasks beside others of their workstream that are completing too, if nobody notices any of them."""
    work = current()
    validating = own(changes)
    started = {e.entity_id for e in work.entries if (e.entity_type, e.to_state) == ("task", State.RUNNING)}
    if started & validating.keys() or not all(map(_reports, changes)):
        return False
    if not validating.keys() <= work.quiet:
        # That these tasks are validating makes no difference to the question, and one that is started here is still
        # to come: it ends after this is committed. What others have become would make one.
        known = started | validating.keys()
        alone = all(c.entity.pk in known for c in work.unwritten if isinstance(c.entity, Task))
        with work.reading_others() if alone else nullcontext():
            # Once more when the lock is shared: whoever had it may have ended the task that was still to come.
            if not _share(changes) or not all(is_quiet for _workstream, is_quiet in look(QUIET, validating)):
                return False
    work.unnoticed = set(validating)
    with answered(SEEN["validation_passed"]):
        move(Task, "validation_passed", validating, reconsider)
    work.unnoticed = set()
    return True


def _reports(change: Change) -> bool:
    """Everybody has seen this task started, so nobody has taken it for the other that is still to come."""
    return (change.entry.from_state, change.entry.to_state) == (State.RUNNING, State.VALIDATING)


def _share(changes: list[Change]) -> bool:
    """The quiet lock of their workstreams, if nobody notices any of them as it stands."""
    work = current()
    if work.connection.vendor != "postgresql":
        return True
    if {(Workstream, pk) for pk in above(changes, "workstream_id")} <= work.shared:
        return True
    if not may_share():
        return False
    shared = look(SHARE_IF_QUIET, own(changes))
    work.shared.update((Workstream, pk) for pk, _locked in shared)
    return bool(shared)


def noticed(changes: list[Change]) -> list[Change]:
    """Without the tasks of which it is known, under their workstream's quiet lock, that nothing follows from them."""
    unnoticed = current().unnoticed
    return [change for change in changes if change.entity.pk not in unnoticed]
