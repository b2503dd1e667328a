"""Reactions of supervised jobs: an allocation takes idle workers, each for one job, and a cancel terminates them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from .. import transitions
from ..kernel.constraints import is_live
from ..kernel.refusals import GuardFailed, Unmet
from ..machines import supervised_worker
from ..machines.supervised_job import FINAL, State, SupervisedJob
from ..machines.supervised_worker import SupervisedWorker
from ..transitions.change import Change
from ..transitions.unit_of_work import UnitOfWork
from .evaluation import Causes, apply

# An idle worker without a sign of life for so long gets no job.
SILENCE_LIMIT = timedelta(minutes=5)
# How long the system leaves jobs and workers to the agents that created them.
GRACE = timedelta(minutes=1)


def react(work: UnitOfWork, changes: list[Change]) -> None:
    for change in changes:
        if change.entry.trigger == "allocate_resources":
            _take_workers(work, change)
        elif change.entry.to_state == State.CANCELED:
            _terminate(work, dict.fromkeys(change.before["allocated_workers"], change.entry))


def _take_workers(work: UnitOfWork, change: Change) -> None:
    """Start the workers, under their locks: a worker that is taken is not idle any more."""
    job = change.entity
    wanted: list[str] = job.__dict__["allocated_workers"]
    found = {worker.pk: worker.state for worker in work.lock_many(SupervisedWorker, wanted)}
    taken = _find_taken(job.pk)
    unmet = [
        Unmet("worker_unavailable", reason, worker, SupervisedWorker.flow.entity_type)
        for worker in wanted
        if (reason := _reason_to_refuse(worker, found.get(worker), taken.get(worker)))
    ]
    if unmet:
        raise GuardFailed(change.entry.trigger, unmet, **change.facts_before())
    transitions.follow_up(work, SupervisedWorker, dict.fromkeys(wanted, change.entry), "start_task")


def find_idle_workers(at: datetime) -> list[str]:
    """Return the live workers that no agent has given work, longest idle first."""
    idle = SupervisedWorker.objects.filter(is_live(supervised_worker.FINAL), state=supervised_worker.State.IDLE)
    live = idle.filter(last_heartbeat__gte=at - SILENCE_LIMIT, state_entered_at__lte=at - GRACE)
    taken = _find_taken()
    return [pk for pk in live.order_by("state_entered_at", "pk").values_list("pk", flat=True) if pk not in taken]


def _find_taken(but: str = "") -> dict[str, str]:
    """Return the workers of other running jobs, with their job; a successor of a lost worker is idle at first."""
    running = SupervisedJob.objects.filter(is_live(FINAL), state=State.RUNNING).exclude(pk=but)
    return {worker: job for job, workers in running.values_list("pk", "allocated_workers") for worker in workers}


def _reason_to_refuse(worker: str, state: str | None, job: str | None) -> str | None:
    if state is None:
        return f"supervised worker {worker} does not exist"
    if job is not None:
        return f"supervised worker {worker} works for job {job}"
    if state != supervised_worker.State.IDLE:
        return f"supervised worker {worker} is {state}, not IDLE"
    return None


def _terminate(work: UnitOfWork, causes: Causes) -> None:
    work.flush()
    live = _select_live(causes)
    if live:
        found = {worker: causes[worker] for worker in live}
        apply(work, SupervisedWorker, "terminate", found, _terminate, reason="its job was canceled")


def _select_live(ids: Iterable[str]) -> list[str]:
    live = SupervisedWorker.objects.filter(is_live(supervised_worker.FINAL), pk__in=list(ids))
    return list(live.values_list("pk", flat=True))
