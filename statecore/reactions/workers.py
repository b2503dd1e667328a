"""Reactions of workers: a worker is busy while it holds a task, and a lost worker loses its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db.models import Count, F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from .. import transitions
from ..journal import OVERRIDDEN, Entry, EventKind
from ..kernel.actors import Kind
from ..kernel.constraints import is_live
from ..kernel.refusals import GuardFailed, Unmet
from ..machines import task as tasks
from ..machines.task import Task
from ..machines.worker import FINAL, RECOVERY_WINDOW, State, Worker
from ..records.recall import Taken, recall
from ..transitions.change import Change
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from .evaluation import Causes, apply, changed
from .tasks import held_by

BATCH = 500
RUNNING = tasks.State.RUNNING


@dataclass(slots=True)
class LoadChange:
    """How many tasks a worker has gained or lost, and the first change that did it."""

    change: Change
    delta: int = 0


def update_load(work: UnitOfWork, changes: list[Change]) -> None:
    """Update the load of the workers that gained or lost tasks, in the order of their ids."""
    loads: dict[str, LoadChange] = {}
    taken: list[Taken] = []
    for change in changes:
        if change.entry.to_state == RUNNING:
            loads.setdefault(change.entity.__dict__["worker_id"], LoadChange(change)).delta += 1
        elif change.entry.from_state == RUNNING:
            loads.setdefault(change.before["worker_id"], LoadChange(change)).delta -= 1
            is_report = change.entry.trigger in tasks.REPORTS and change.entry.kind == EventKind.NORMAL
            # Without a report of its agent, which does not know then that the task was taken away.
            if not is_report or change.entity.facts.actor.kind is Kind.SYSTEM:
                taken.append(_taken(change))
    if taken:
        recall(taken)
    for worker_id, load in sorted(loads.items()):
        if load.delta > 0:
            for worker in work.lock_known(Worker, [worker_id]):
                _add_load(work, worker, load)
        else:
            _remove_load(work, worker_id, load)


def _taken(change: Change) -> Taken:
    """The agent may work on the task until its lease ends, and a little longer because clocks differ."""
    was, at = change.before, change.entry.timestamp
    until = max(was["lease_expires_at"] or at, at) + RECOVERY_WINDOW
    return Taken(was["worker_id"], change.entity.pk, was["attempt"], until)


def _add_load(work: UnitOfWork, worker: Any, load: LoadChange) -> None:
    """Refuse a task started without a claim, on a worker that has no room for it."""
    total, most = worker.current_load + load.delta, worker.max_concurrent_tasks
    if worker.state not in (State.IDLE, State.BUSY) or total > most:
        room = max(0, most - worker.current_load)
        detail = f"worker {worker.pk} is {worker.state} and has room for {room}, not {load.delta}"
        raise GuardFailed(
            "worker_started", [Unmet("worker_unsuitable", detail, worker.pk)], **load.change.facts_before()
        )
    _set_load(work, worker, total, load.change.entry)


def _remove_load(work: UnitOfWork, worker_id: str, load: LoadChange) -> None:
    """Does not wait for the worker's row: if it is locked elsewhere, its tasks are counted after the commit."""
    found: list[Any] = work.lock_known(Worker, [worker_id], skip_locked=True)
    if not found:
        work.postpone(partial(run_in_transaction, partial(_recount, worker_id, load.change.entry)))
    for worker in found:
        # Never below zero: a wrong count is for the integrity check to find, not a reason to refuse a report.
        _set_load(work, worker, max(worker.current_load + load.delta, 0), load.change.entry)


def _recount(worker_id: str, cause: Entry | None, work: UnitOfWork) -> None:
    worker = work.lock(Worker, worker_id)
    _set_load(work, worker, Task.objects.filter(worker=worker_id).count(), cause)


def recount() -> int:
    """Correct the load of live workers, left wrong by a process that died before its recount."""
    running = Task.objects.filter(worker=OuterRef("pk")).order_by().values("worker").annotate(n=Count("pk"))
    live = Worker.objects.filter(is_live(FINAL)).annotate(running=Coalesce(Subquery(running.values("n")), 0))
    wrong = list(live.exclude(current_load=F("running")).values_list("pk", flat=True)[:BATCH])
    for worker_id in wrong:
        run_in_transaction(partial(_recount, worker_id, None))
    return len(wrong)


def _set_load(work: UnitOfWork, worker: Any, load: int, cause: Entry | None) -> None:
    causes: Causes = {worker.pk: cause}
    state = worker.__dict__["state"]
    # The guards of these two read the worker only, so nothing has to be flushed for them.
    if state == State.IDLE and load:
        transitions.follow_up(work, Worker, causes, "task_assigned", params={"load": load}, flush=False)
    elif state == State.BUSY and not load:
        transitions.follow_up(work, Worker, causes, "task_completed", params={"load": load}, flush=False)
    elif load != worker.current_load:
        work.flush()
        worker.current_load = load
        Worker.objects.filter(pk=worker.pk).update(current_load=load)


def react(work: UnitOfWork, changes: list[Change]) -> None:
    """A worker that is given up loses its tasks, which are retried; one that shuts down finishes them."""
    for change in changes:
        if change.entry.to_state == State.SHUTDOWN and change.entry.trigger in LOST_BY:
            _fail_tasks(change.entity.pk, work, held_by(work, changed([change])))
    recovered, drained, suspended = [], [], []
    for change in changes:
        worker = change.entity.__dict__
        if change.entry.trigger == "health_check_recovered" and worker["current_load"]:
            recovered.append(change)
        if change.entry.to_state == State.IDLE and worker["draining"] and not worker["current_load"]:
            drained.append(change)
        elif change.entry.to_state == State.IDLE and worker["suspending"] and not worker["current_load"]:
            suspended.append(change)
    if recovered:
        transitions.follow_up(work, Worker, changed(recovered), "task_assigned")
    if drained:
        transitions.follow_up(work, Worker, changed(drained), "shutdown_requested", reason="it was drained")
    if suspended:
        transitions.follow_up(work, Worker, changed(suspended), "worker_suspended")


LOST_BY = ("max_timeout_exceeded", OVERRIDDEN)


def _fail_tasks(worker_id: str, work: UnitOfWork, causes: Causes) -> None:
    """Fail the tasks that a lost worker still runs."""
    work.flush()
    its_own = set(Task.objects.filter(pk__in=list(causes), worker=worker_id).values_list("pk", flat=True))
    if its_own:
        error = f"worker {worker_id} was lost"
        found = {pk: cause for pk, cause in causes.items() if pk in its_own}
        reevaluate = partial(_fail_tasks, worker_id)
        apply(work, Task, "execution_failed", found, reevaluate, params={"error": error}, reason=error)
