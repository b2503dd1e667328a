"""Recoveries of supervised workers, their jobs, and UET workers (processes of the execution engine)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db.models import Q

from ... import transitions
from ...kernel import phrasing
from ...kernel.actors import THE_SYSTEM
from ...kernel.constraints import is_live
from ...kernel.refusals import GuardFailed
from ...machines import supervised_job, supervised_worker, uet_worker
from ...machines.supervised_job import SupervisedJob
from ...machines.supervised_worker import SupervisedWorker
from ...machines.uet_worker import QUARANTINE_LIMIT, UetWorker
from ...reactions import supervised
from .. import deadlines
from .definition import Recovery, RecoveryContext, find_past_deadline, when_overdue

WORKING_UET = (uet_worker.State.IDLE, uet_worker.State.BUSY)
LOST = (supervised_worker.State.FAILED, supervised_worker.State.TERMINATED)
MAX_REPLACEMENTS = 3
MAX_JOBS = 5_000  # running jobs that one sweep checks, oldest first
CHUNK = 500

# Supervised workers and jobs


def terminate(worker: SupervisedWorker, context: RecoveryContext) -> None:
    context.fire(worker, "terminate")


def cancel(job: SupervisedJob, context: RecoveryContext) -> None:
    context.fire(job, "cancel")


def validate(job: SupervisedJob, context: RecoveryContext) -> None:
    try:
        context.fire(job, "validate")
    except GuardFailed as refusal:
        context.fire(job, "validation_error", error=refusal.detail)


def find_allocatable_jobs(recovery: Recovery, at: datetime, limit: int) -> list[str]:
    """Return the pending jobs for which there are enough idle workers, longest waiting first."""
    idle = len(supervised.find_idle_workers(at))
    pending = SupervisedJob.objects.filter(is_live(SupervisedJob.flow.final), state=supervised_job.State.PENDING)
    waiting = pending.filter(state_entered_at__lte=at - supervised.GRACE).order_by("state_entered_at")
    found: list[str] = []
    for job, count in waiting.values_list("pk", "worker_count")[:MAX_JOBS]:
        if count <= idle:
            found.append(job)
            idle -= count
    return found[:limit]


def has_enough_idle_workers(job: SupervisedJob, at: datetime) -> bool:
    is_waiting = job.state_entered_at <= at - supervised.GRACE
    return is_waiting and len(supervised.find_idle_workers(at)) >= job.worker_count


def allocate(job: SupervisedJob, context: RecoveryContext) -> None:
    workers = supervised.find_idle_workers(context.at)[: job.worker_count]
    context.fire(job, "allocate_resources", workers=workers)


def select_lost_workers(job: SupervisedJob) -> Any:
    """Return the job's workers that failed or were terminated."""
    return SupervisedWorker.objects.filter(pk__in=job.allocated_workers, state__in=LOST)


def has_lost_a_worker(job: SupervisedJob, at: datetime) -> bool:
    return bool(select_lost_workers(job).exists())


def find_jobs_with_lost_workers(recovery: Recovery, at: datetime, limit: int) -> list[str]:
    running = SupervisedJob.objects.filter(is_live(SupervisedJob.flow.final), state=supervised_job.State.RUNNING)
    jobs = list(running.order_by("state_entered_at").values_list("pk", "allocated_workers")[:MAX_JOBS])
    found: list[str] = []
    for start in range(0, len(jobs), CHUNK):
        chunk = jobs[start : start + CHUNK]
        allocated = {worker for _job, workers in chunk for worker in workers}
        lost = set(SupervisedWorker.objects.filter(pk__in=allocated, state__in=LOST).values_list("pk", flat=True))
        found += [job for job, workers in chunk if not lost.isdisjoint(workers)]
    return found[:limit]


def replace_lost_workers(job: SupervisedJob, context: RecoveryContext) -> None:
    """Allocate successors of the lost workers; fail the job if a worker was replaced too often."""
    successors = {worker.pk: _find_or_create_successor(worker, job, context) for worker in select_lost_workers(job)}
    if None in successors.values():
        context.fire(job, "error", error=f"a worker was lost more than {MAX_REPLACEMENTS} times")
        return
    workers = [successors.get(worker, worker) for worker in job.allocated_workers]
    SupervisedJob.objects.filter(pk=job.pk).update(allocated_workers=workers)


def _find_or_create_successor(worker: SupervisedWorker, job: SupervisedJob, context: RecoveryContext) -> str | None:
    """Return the newest successor, creating one if that is lost too; None after too many replacements."""
    successors = _collect_ids(
        worker.pk, lambda pk: SupervisedWorker.objects.filter(retry_of=pk).values_list("pk", flat=True)
    )
    newest = successors[-1]
    if SupervisedWorker.objects.filter(pk=newest).exclude(state__in=LOST).exists():
        return newest
    predecessors = _collect_ids(
        worker.pk, lambda pk: SupervisedWorker.objects.filter(pk=pk).values_list("retry_of", flat=True)
    )
    if len(predecessors) + len(successors) - 1 > MAX_REPLACEMENTS:
        return None
    reason = f"lost by supervised job {job.pk}"
    created = transitions.retry(SupervisedWorker, newest, actor=THE_SYSTEM, reason=reason, within=context.work)
    return created.entity.pk if created.entity else None


def _collect_ids(worker_id: str, select_next: Callable[[str], Any]) -> list[str]:
    """Return the worker's id and the ids of its successors or predecessors, which `select_next` finds."""
    ids = [worker_id]
    while (following := select_next(ids[-1]).first()) is not None:
        ids.append(following)
    return ids


# UET workers


def end_silent_worker(worker: UetWorker, context: RecoveryContext) -> None:
    if worker.state == uet_worker.State.BUSY:
        silence = f"no heartbeat for {phrasing.format_duration(context.at - worker.last_heartbeat)}"
        context.fire(worker, "worker_crashed", error=silence)
    else:
        context.fire(worker, "shutdown_requested")


def fail_spawn(worker: UetWorker, context: RecoveryContext) -> None:
    waited = phrasing.format_duration(context.at - deadlines.get_clock_start(worker))
    context.fire(worker, "spawn_failed", error=f"not ready after {waited}")


def end_draining_worker(worker: UetWorker, context: RecoveryContext) -> None:
    context.fire(worker, "current_task_finished")


def is_silent(worker: UetWorker, at: datetime) -> bool:
    return worker.quarantined_at is None and deadlines.is_stuck(worker, at)


def has_been_given_up(worker: UetWorker, at: datetime) -> bool:
    is_in_quarantine = worker.quarantined_at is not None
    return is_in_quarantine and at - deadlines.get_clock_start(worker) > QUARANTINE_LIMIT


def quarantine(worker: UetWorker, context: RecoveryContext) -> None:
    """Give it no more tasks. Its next heartbeat ends the quarantine."""
    changed = {"quarantined_at": context.at}
    transitions.amend(context.work, worker, changed, actor=THE_SYSTEM, reason="it missed two heartbeats")


RECOVERIES = (
    when_overdue("supervised_worker", {supervised_worker.State.RUNNING}, "terminate: timed out", terminate),
    when_overdue("supervised_job", {supervised_job.State.SUBMITTED}, "validate", validate),
    Recovery(
        "supervised_job",
        frozenset({str(supervised_job.State.PENDING)}),
        "allocate idle workers",
        allocate,
        find_allocatable_jobs,
        has_enough_idle_workers,
        always_automatic=True,
    ),
    when_overdue("supervised_job", {supervised_job.State.RUNNING}, "cancel: timed out", cancel),
    Recovery(
        "supervised_job",
        frozenset({str(supervised_job.State.RUNNING)}),
        "replace the lost workers",
        replace_lost_workers,
        find_jobs_with_lost_workers,
        has_lost_a_worker,
    ),
    when_overdue("uet_worker", {uet_worker.State.SPAWNING}, "give up: not ready in time", fail_spawn),
    Recovery(
        "uet_worker",
        frozenset(map(str, WORKING_UET)),
        "quarantine: two heartbeats missed",
        quarantine,
        find_past_deadline,
        is_silent,
        overdue_condition=lambda at: Q(quarantined_at=None),
    ),
    Recovery(
        "uet_worker",
        frozenset(map(str, WORKING_UET)),
        "give up: no heartbeat in quarantine",
        end_silent_worker,
        find_past_deadline,
        has_been_given_up,
        overdue_condition=lambda at: Q(quarantined_at__isnull=False, last_heartbeat__lt=at - QUARANTINE_LIMIT),
    ),
    when_overdue(
        "uet_worker", {uet_worker.State.DRAINING}, "give up: draining without heartbeats", end_draining_worker
    ),
)
