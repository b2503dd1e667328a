"""What the jobs wait for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ...machines import agent_job, ingestion_job, supervised_job, supervised_worker
from ...machines.agent_job import AgentJob
from ...machines.ingestion_job import IngestionJob
from ...machines.pipeline_job import PipelineJob
from ...machines.supervised_job import SupervisedJob
from ...machines.supervised_worker import SupervisedWorker
from ...records.checkpoint import Checkpoint, lineage
from .. import words
from .wait import Cause, first_of

LOST = (supervised_worker.State.FAILED, supervised_worker.State.TERMINATED)


def ingestion(job: IngestionJob, at: datetime) -> Cause:
    if job.state == ingestion_job.State.RUNNING:
        return f"{words.standing(job, at)} on {job.worker_name}"
    if job.state == ingestion_job.State.FAILED:
        error = words.first_line(job.last_error) or "it did not say why"
        return words.standing(job, at, f"{error}; {job.attempts} of {job.max_attempts} attempts are used")
    if job.run_after is not None and job.run_after > at:
        return words.standing(job, at, f"its next try {words.until(job.run_after, at)}")
    return ""


def agent(job: AgentJob, at: datetime) -> Cause:
    if job.state == agent_job.State.RUNNING:
        return f"{words.standing(job, at)} on {job.worker_name}"
    if job.state in agent_job.BLOCKED and job.waiting_for:
        return f"{words.standing(job, at)} for the signal {job.waiting_for}"
    if job.state == agent_job.State.RETRYING:
        return f"retrying: the next try {words.until(job.retry_at or job.state_entered_at, at)}"
    return ""


def supervised(job: SupervisedJob, at: datetime) -> Cause:
    if job.state == supervised_job.State.PENDING:
        return words.standing(job, at, f"it waits for {job.worker_count} workers")
    if job.state != supervised_job.State.RUNNING:
        return ""
    lost = first_of("runs on", lost_workers(job))
    return lost or f"{words.standing(job, at)} on {', '.join(job.allocated_workers)}"


def lost_workers(job: SupervisedJob) -> Any:
    """The workers it was given that are gone without having finished."""
    return SupervisedWorker.objects.filter(pk__in=job.allocated_workers, state__in=LOST)


def pipeline(job: PipelineJob, at: datetime) -> Cause:
    if job.flow.timing.get(job.state) is None or job.started_at is None:
        return ""
    kept = Checkpoint.objects.filter(job__in=lineage(job.pk)).order_by("-updated_at").first()
    if kept is None:
        return words.standing(job, at, "it has stored no checkpoint")
    return words.standing(job, at, f"its checkpoint of {kept.phase} is {words.length(at - kept.updated_at)} old")
