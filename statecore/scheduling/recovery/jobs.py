"""Recoveries of ingestion jobs, agent jobs and pipeline jobs."""

from __future__ import annotations

from datetime import datetime

from ...kernel import phrasing
from ...kernel.constraints import is_live
from ...machines import agent_job, ingestion_job
from ...machines.agent_job import AgentJob
from ...machines.ingestion_job import IngestionJob
from ...machines.pipeline_job import WORKING, PipelineJob
from .. import deadlines
from .definition import Recovery, RecoveryContext, when_overdue

# Ingestion jobs


def fail_and_retry(job: IngestionJob, context: RecoveryContext) -> None:
    stalled_for = phrasing.format_duration(context.at - deadlines.get_clock_start(job))
    failed = context.fire(job, "fail", error=f"stalled: no report for {stalled_for}")
    retry_or_quarantine(failed, context)


def retry_or_quarantine(job: IngestionJob, context: RecoveryContext) -> None:
    context.fire(job, "retry" if job.attempts < job.max_attempts else "quarantine")


# Agent jobs. Blocked ones are never given to another worker.


def requeue(job: AgentJob, context: RecoveryContext) -> None:
    context.fire(job, "job_requeued")


def park(job: AgentJob, context: RecoveryContext) -> None:
    context.fire(job, "job_parked")


def retry_is_due(job: AgentJob, at: datetime) -> bool:
    return job.retry_at is not None and job.retry_at <= at


def find_due_retries(recovery: Recovery, at: datetime, limit: int) -> list[str]:
    retrying = AgentJob.objects.filter(is_live(AgentJob.flow.final), state=agent_job.State.RETRYING, retry_at__lte=at)
    return list(retrying.order_by("retry_at").values_list("pk", flat=True)[:limit])


# Pipeline jobs


def release(job: PipelineJob, context: RecoveryContext) -> None:
    """Restart the clock of the stage. State and checkpoints stay, so that a worker can resume the job."""
    PipelineJob.objects.filter(pk=job.pk).update(resumed_at=context.at, last_heartbeat=context.at)


RECOVERIES = (
    when_overdue("ingestion_job", {ingestion_job.State.RUNNING}, "fail and retry", fail_and_retry),
    when_overdue("ingestion_job", {ingestion_job.State.FAILED}, "retry or quarantine", retry_or_quarantine),
    when_overdue("agent_job", {agent_job.State.RUNNING}, "revoke the lease and requeue", requeue),
    when_overdue("agent_job", {agent_job.State.WAITING}, "park until the signal arrives", park),
    Recovery(
        "agent_job",
        frozenset({str(agent_job.State.RETRYING)}),
        "requeue for the next attempt",
        requeue,
        find_due_retries,
        retry_is_due,
        always_automatic=True,
    ),
    when_overdue("pipeline_job", WORKING, "resume in place from the checkpoint", release),
)
