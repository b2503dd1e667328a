"""What workers, circuit breakers and jobs wait for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from ...kernel import phrasing
from ...machines import agent_job, circuit_breaker, ingestion_job, supervised_job
from ...machines.agent_job import AgentJob
from ...machines.circuit_breaker import CircuitBreaker
from ...machines.ingestion_job import IngestionJob
from ...machines.pipeline_job import PipelineJob
from ...machines.supervised_job import SupervisedJob
from ...machines.worker import SILENCE_LIMIT
from ...records.checkpoint import Checkpoint, list_lineage
from ...scheduling.recovery.workers import select_lost_workers
from .waits import Cause, find_wait_among

STARTING = ("initializing", "SPAWNING")


def find_worker_cause(worker: Any, at: datetime) -> Cause:
    if worker.state in STARTING:
        return phrasing.describe_state(worker, at, "it has not reported ready")
    if is_silent(worker, at):
        return f"last contact {phrasing.format_duration(at - worker.last_heartbeat)} ago"
    return phrasing.describe_state(worker, at)


def is_silent(worker: Any, at: datetime) -> bool:
    return bool(at - worker.last_heartbeat > SILENCE_LIMIT)


def find_breaker_cause(breaker: CircuitBreaker, at: datetime) -> Cause:
    if breaker.state == circuit_breaker.State.OPEN:
        due = phrasing.format_due(breaker.cools_down_at(), at)
        return phrasing.describe_state(
            breaker, at, f"{breaker.failure_count} failures in a row; the next trial call {due}"
        )
    if breaker.state == circuit_breaker.State.HALF_OPEN:
        trial = f"trial call by {breaker.probe_by}" if breaker.probe_by else "no trial call yet"
        return phrasing.describe_state(breaker, at, trial)
    return ""


def find_ingestion_job_cause(job: IngestionJob, at: datetime) -> Cause:
    if job.state == ingestion_job.State.RUNNING:
        return f"{phrasing.describe_state(job, at)} on {job.worker_name}"
    if job.state == ingestion_job.State.FAILED:
        error = phrasing.first_line(job.last_error) or "no error message"
        return phrasing.describe_state(job, at, f"{error}; {job.attempts} of {job.max_attempts} attempts used")
    if job.run_after is not None and job.run_after > at:
        return phrasing.describe_state(job, at, f"the next attempt {phrasing.format_due(job.run_after, at)}")
    return ""


def find_agent_job_cause(job: AgentJob, at: datetime) -> Cause:
    if job.state == agent_job.State.RUNNING:
        return f"{phrasing.describe_state(job, at)} on {job.worker_name}"
    if job.state in agent_job.BLOCKED and job.waiting_for:
        return f"{phrasing.describe_state(job, at)} for the signal {job.waiting_for}"
    if job.state == agent_job.State.RETRYING:
        return f"retrying: the next attempt {phrasing.format_due(job.retry_at or job.state_entered_at, at)}"
    return ""


def find_supervised_job_cause(job: SupervisedJob, at: datetime) -> Cause:
    if job.state == supervised_job.State.PENDING:
        workers = "1 worker" if job.worker_count == 1 else f"{job.worker_count} workers"
        return phrasing.describe_state(job, at, f"it waits for {workers}")
    if job.state != supervised_job.State.RUNNING:
        return ""
    lost = find_wait_among("runs on", select_lost_workers(job))
    return lost or f"{phrasing.describe_state(job, at)} on {', '.join(job.allocated_workers)}"


def find_pipeline_job_cause(job: PipelineJob, at: datetime) -> Cause:
    if job.flow.timing.get(job.state) is None or job.started_at is None:
        return ""
    last = Checkpoint.objects.filter(job__in=list_lineage(job.pk)).order_by("-updated_at").first()
    if last is None:
        return phrasing.describe_state(job, at, "it has stored no checkpoint")
    age = phrasing.format_duration(at - last.updated_at)
    return phrasing.describe_state(job, at, f"its last checkpoint ({last.phase}) is {age} old")


CAUSES: dict[str, Callable[[Any, datetime], Cause]] = {
    "worker": find_worker_cause,
    "uet_worker": find_worker_cause,
    "circuit_breaker": find_breaker_cause,
    "ingestion_job": find_ingestion_job_cause,
    "agent_job": find_agent_job_cause,
    "supervised_job": find_supervised_job_cause,
    "pipeline_job": find_pipeline_job_cause,
}
