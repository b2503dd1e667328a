"""What follows for workers: they are busy as long as they hold a task, and a lost one lets go of its tasks."""

from __future__ import annotations

import json
from typing import Any

from .. import door
from ..door.change import Change
from ..door.work import current
from ..journal import OVERRIDDEN, Entry
from ..kernel.refusals import GuardFailed, Unmet
from ..machines import task as tasks
from ..machines.task import Task
from ..machines.worker import State, Worker
from .causes import own
from .tasks import held_by

RUNNING = tasks.State.RUNNING
# How a task ends its run when its own agent says so; whatever else ends it, the agent has to be told.
REPORTS = {"execution_completed", "execution_failed"}


class Tally:
    """What tasks mean for one worker that holds them."""

    def __init__(self, cause: Entry) -> None:
        self.change = 0
        self.cause = cause
        self.commands: list[dict[str, Any]] = []

    def count(self, change: Change, by: int) -> None:
        self.change += by
        if by < 0 and change.entry.trigger not in REPORTS:
            self.commands.append({"cancel": change.entity.pk, "attempt": change.before["attempt"]})


def keep_count(changes: list[Change]) -> None:
    """Tasks that were taken and let go of, by worker, in the order of the workers' ids."""
    tallies: dict[str, Tally] = {}
    for change in changes:
        if change.entry.to_state == RUNNING:
            tallies.setdefault(change.entity.__dict__["worker_id"], Tally(change.entry)).count(change, +1)
        elif change.entry.from_state == RUNNING:
            tallies.setdefault(change.before["worker_id"], Tally(change.entry)).count(change, -1)
    for worker_id, tally in sorted(tallies.items()):
        _apply(worker_id, tally)


ADDED_TO_COMMANDS = {
    "postgresql": "commands || %s::jsonb",
    "sqlite": "(SELECT json_group_array(json(value)) FROM "
    "(SELECT value FROM json_each(commands) UNION ALL SELECT value FROM json_each(%s)))",
}


HAS_ROOM = " AND state IN ('idle', 'busy') AND current_load + %s <= max_concurrent_tasks"


def _no_room(worker_id: str, wanted: int) -> GuardFailed:
    worker = Worker.objects.get(pk=worker_id)
    room = max(0, worker.max_concurrent_tasks - worker.current_load)
    said = f"worker {worker_id} is {worker.state} and has room for {room}, not {wanted}"
    return GuardFailed("worker_started", [Unmet("worker_unsuitable", said, worker_id)], **worker.standing())


def _apply(worker_id: str, tally: Tally) -> None:
    work = current()
    commands = f", commands = {ADDED_TO_COMMANDS[work.connection.vendor]}" if tally.commands else ""
    # Never below zero: a count that has gone wrong is for integrity to find, not a reason to refuse a report.
    load = "CASE WHEN current_load + %s > 0 THEN current_load + %s ELSE 0 END"
    # A task that was started without a claim was started on a worker that nobody had locked.
    room = HAS_ROOM if tally.change > 0 else ""
    work.cursor.execute(
        f"UPDATE statecore_worker SET current_load = {load}{commands} WHERE id = %s{room} "
        "RETURNING state, current_load",
        [tally.change, tally.change, *([json.dumps(tally.commands)] if tally.commands else []), worker_id]
        + ([tally.change] if room else []),
    )
    found = work.cursor.fetchall()
    if not found:
        raise _no_room(worker_id, tally.change)
    ((state, load),) = found
    causes = {worker_id: tally.cause}
    if state == State.IDLE and load:
        door.follow_up(Worker, causes, "task_assigned")
    elif state == State.BUSY and not load:
        door.follow_up(Worker, causes, "task_completed")


def let_go(changes: list[Change]) -> None:
    """A worker that was given up loses its tasks, which are retried; one that shuts down finishes them."""
    lost = own(change for change in changes if _is_lost(change))
    if found := held_by(lost):
        for worker_id in lost:
            its_own = {task: cause for task, cause in found.items() if cause is lost[worker_id]}
            if its_own:
                error = f"worker {worker_id} was lost"
                door.follow_up(Task, its_own, "execution_failed", params={"error": error}, reason=error)
    back = own(c for c in changes if c.entry.trigger == "health_check_recovered" and c.entity.__dict__["current_load"])
    if back:
        door.follow_up(Worker, back, "task_assigned")
    if done := own(change for change in changes if _may_go(change)):
        door.follow_up(Worker, done, "shutdown_requested", reason="it was drained")


def _may_go(change: Change) -> bool:
    """It is drained, and holds nothing that it would have to finish."""
    worker = change.entity.__dict__
    return change.entry.to_state == State.IDLE and worker["draining"] and not worker["current_load"]


def _is_lost(change: Change) -> bool:
    return change.entry.to_state == State.SHUTDOWN and change.entry.trigger in ("max_timeout_exceeded", OVERRIDDEN)
