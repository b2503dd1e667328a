"""What follows for workers: they are busy as long as they hold a task, and a lost one lets go of its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Count, F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from .. import door
from ..door import rows
from ..door.change import Change
from ..door.perform import perform
from ..journal import OVERRIDDEN, Entry, EventKind
from ..kernel.indexes import is_live
from ..kernel.refusals import GuardFailed, Unmet
from ..machines import task as tasks
from ..machines.task import Task
from ..machines.worker import FINAL, RECOVERY_WINDOW, State, Worker
from ..records.recall import Taken, recall
from .causes import Causes, own
from .consequences import move
from .tasks import held_by

BATCH = 500
RUNNING = tasks.State.RUNNING


@dataclass(slots=True)
class Tally:
    """What tasks mean for one worker that holds them."""

    cause: Entry | None
    change: int = 0


def keep_count(changes: list[Change]) -> None:
    """Tasks that were taken and let go of, by worker, in the order of the workers' ids."""
    tallies: dict[str, Tally] = {}
    for change in changes:
        if change.entry.to_state == RUNNING:
            tallies.setdefault(change.entity.__dict__["worker_id"], Tally(change.entry)).change += 1
        elif change.entry.from_state == RUNNING:
            tallies.setdefault(change.before["worker_id"], Tally(change.entry)).change -= 1
    recall(_taken(change) for change in changes if change.entry.from_state == RUNNING and not _is_reported(change))
    for worker_id, tally in sorted(tallies.items()):
        _apply(worker_id, tally)


def _is_reported(change: Change) -> bool:
    """Its own agent says so, and not whoever has given the agent up."""
    return change.entry.trigger in tasks.REPORTS and change.entry.kind == EventKind.NORMAL


def _taken(change: Change) -> Taken:
    """Its agent may be at it until its time is over, and a little longer: nobody's clock is exact."""
    was, at = change.before, change.entry.timestamp
    until = max(was["lease_expires_at"] or at, at) + RECOVERY_WINDOW
    return Taken(was["worker_id"], change.entity.pk, was["attempt"], until)


def _apply(worker_id: str, tally: Tally) -> None:
    """Nobody waits to let go of a worker: while somebody else holds its row, its tasks are counted after the commit."""
    if tally.change > 0:
        for worker in rows.at_hand(Worker, [worker_id]):
            _take(worker, tally)
        return
    found: list[Any] = rows.at_hand(Worker, [worker_id], skip_locked=True)
    if not found:
        transaction.on_commit(partial(perform, partial(_count_again, worker_id, tally)), robust=True)
    for worker in found:
        # Never below zero: a count that has gone wrong is for integrity to find, not a reason to refuse a report.
        _hold(worker, max(worker.current_load + tally.change, 0), tally)


def _take(worker: Any, tally: Tally) -> None:
    """A task that was started without a claim was started on a worker that nobody had locked."""
    load, most = worker.current_load + tally.change, worker.max_concurrent_tasks
    if worker.state not in (State.IDLE, State.BUSY) or load > most:
        room = max(0, most - worker.current_load)
        said = f"worker {worker.pk} is {worker.state} and has room for {room}, not {tally.change}"
        raise GuardFailed("worker_started", [Unmet("worker_unsuitable", said, worker.pk)], **worker.standing())
    _hold(worker, load, tally)


def _count_again(worker_id: str, tally: Tally) -> None:
    worker = rows.lock(Worker, worker_id)
    _hold(worker, Task.objects.filter(worker=worker_id).count(), tally)


def recount() -> int:
    """Live workers whose load is not what they hold: whoever was to count again died before it could."""
    running = Task.objects.filter(worker=OuterRef("pk")).order_by().values("worker").annotate(n=Count("pk"))
    live = Worker.objects.filter(is_live(FINAL)).annotate(running=Coalesce(Subquery(running.values("n")), 0))
    wrong = list(live.exclude(current_load=F("running")).values_list("pk", flat=True)[:BATCH])
    for worker_id in wrong:
        perform(partial(_count_again, worker_id, Tally(None)))
    return len(wrong)


def _hold(worker: Any, load: int, tally: Tally) -> None:
    causes: Causes = {worker.pk: tally.cause}
    if worker.state == State.IDLE and load:
        door.follow_up(Worker, causes, "task_assigned", params={"load": load})
    elif worker.state == State.BUSY and not load:
        door.follow_up(Worker, causes, "task_completed", params={"load": load})
    elif load != worker.current_load:
        worker.current_load = load
        Worker.objects.filter(pk=worker.pk).update(current_load=load)


def let_go(changes: list[Change]) -> None:
    """A worker that was given up loses its tasks, which are retried; one that shuts down finishes them."""
    for change in changes:
        if _is_lost(change):
            _lose(change.entity.pk, held_by(own([change])))
    back = own(c for c in changes if c.entry.trigger == "health_check_recovered" and c.entity.__dict__["current_load"])
    if back:
        door.follow_up(Worker, back, "task_assigned")
    if done := own(change for change in changes if _may_go(change)):
        door.follow_up(Worker, done, "shutdown_requested", reason="it was drained")


def _lose(worker_id: str, causes: Causes) -> None:
    """Fail what a lost worker still runs."""
    its_own = set(Task.objects.filter(pk__in=list(causes), worker=worker_id).values_list("pk", flat=True))
    if its_own:
        error = f"worker {worker_id} was lost"
        found = {pk: cause for pk, cause in causes.items() if pk in its_own}
        again = partial(_lose, worker_id)
        move(Task, "execution_failed", found, again, params={"error": error}, reason=error)


def _may_go(change: Change) -> bool:
    """It is drained, and holds nothing that it would have to finish."""
    worker = change.entity.__dict__
    return change.entry.to_state == State.IDLE and worker["draining"] and not worker["current_load"]


def _is_lost(change: Change) -> bool:
    return change.entry.to_state == State.SHUTDOWN and change.entry.trigger in ("max_timeout_exceeded", OVERRIDDEN)
