"""Supervised workers and jobs: a timeout ends them, and a worker that is lost is replaced."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from ... import door
from ...kernel.actors import THE_SYSTEM
from ...kernel.indexes import is_live
from ...kernel.refusals import GuardFailed
from ...machines import supervised_job, supervised_worker
from ...machines.supervised_job import SupervisedJob
from ...machines.supervised_worker import SupervisedWorker
from ..causes.jobs import LOST, lost_workers
from .plan import Order, Recovery, when_overdue

MOST_REPLACEMENTS = 3
MOST_JOBS = 5_000  # of those running, how many one sweep looks at, oldest first
CHUNK = 500


def terminate(worker: SupervisedWorker, order: Order) -> None:
    order.fire(worker, "terminate")


def cancel(job: SupervisedJob, order: Order) -> None:
    order.fire(job, "cancel")


def validate(job: SupervisedJob, order: Order) -> None:
    """What is valid waits for workers; what is not has failed."""
    try:
        order.fire(job, "validate")
    except GuardFailed as refusal:
        order.fire(job, "validation_error", error=refusal.detail)


def replace_lost_workers(job: SupervisedJob, order: Order) -> None:
    """The job goes on with successors of the workers it lost; one that loses them again and again has failed."""
    heirs = {worker.pk: _heir_of(worker, job) for worker in lost_workers(job)}
    if None in heirs.values():
        order.fire(job, "error", error=f"its workers were lost more than {MOST_REPLACEMENTS} times")
        return
    crew = [heirs.get(worker, worker) for worker in job.allocated_workers]
    SupervisedJob.objects.filter(pk=job.pk).update(allocated_workers=crew)


def _heir_of(worker: SupervisedWorker, job: SupervisedJob) -> str | None:
    """The newest successor of a worker, made now where that is lost too; None when there were too many."""
    line = _descendants(worker.pk)
    if SupervisedWorker.objects.filter(pk=line[-1]).exclude(state__in=LOST).exists():
        return line[-1]
    if len(_ancestors(worker.pk)) + len(line) - 1 > MOST_REPLACEMENTS:
        return None
    made = door.retry(SupervisedWorker, line[-1], actor=THE_SYSTEM, reason=f"supervised job {job.pk} lost it")
    return made.entity.pk if made.entity else None


def _descendants(worker_id: str) -> list[str]:
    """The worker and those that succeeded it, oldest first."""
    return _line(worker_id, lambda pk: SupervisedWorker.objects.filter(retry_of=pk).values_list("pk", flat=True))


def _ancestors(worker_id: str) -> list[str]:
    """The worker and those it is a retry of, newest first."""
    return _line(worker_id, lambda pk: SupervisedWorker.objects.filter(pk=pk).values_list("retry_of", flat=True))


def _line(worker_id: str, following: Callable[[str], Any]) -> list[str]:
    line = [worker_id]
    while (relative := following(line[-1]).first()) is not None:
        line.append(relative)
    return line


def has_lost_a_worker(job: SupervisedJob, at: datetime) -> bool:
    return bool(lost_workers(job).exists())


def without_their_workers(recovery: Recovery, at: datetime, limit: int) -> list[str]:
    running = SupervisedJob.objects.filter(is_live(SupervisedJob.flow.final), state=supervised_job.State.RUNNING)
    crews = list(running.order_by("state_entered_at").values_list("pk", "allocated_workers")[:MOST_JOBS])
    found: list[str] = []
    for start in range(0, len(crews), CHUNK):
        chunk = crews[start : start + CHUNK]
        members = {worker for _job, crew in chunk for worker in crew}
        lost = set(SupervisedWorker.objects.filter(pk__in=members, state__in=LOST).values_list("pk", flat=True))
        found += [job for job, crew in chunk if not lost.isdisjoint(crew)]
    return found[:limit]


RECOVERIES = (
    when_overdue(
        "supervised_worker", {supervised_worker.State.RUNNING}, "terminate it: its supervisor's time is up", terminate
    ),
    when_overdue("supervised_job", {supervised_job.State.SUBMITTED}, "validate it", validate),
    when_overdue("supervised_job", {supervised_job.State.RUNNING}, "cancel it: its time is up", cancel),
    Recovery(
        "supervised_job",
        frozenset({str(supervised_job.State.RUNNING)}),
        "replace the workers it lost",
        replace_lost_workers,
        without_their_workers,
        has_lost_a_worker,
    ),
)
