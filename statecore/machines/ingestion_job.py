"""An ingestion job: started by a worker, retried after a failure, and quarantined if retries do not help."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.core.validators import MinValueValidator
from django.db import models

from ..framework.declarations import (
    AGENT,
    ANY,
    OPERATOR,
    SYSTEM,
    AtMost,
    Facts,
    Flow,
    HeartbeatEntity,
    Kind,
    Rest,
    Severity,
    StateField,
    Unmet,
    constraints,
    format_utc,
    live_by_state,
    the_attempt_is_current,
    transition,
)

STALLED_AFTER = timedelta(seconds=600)
RETRY_DELAY_SECONDS = 60


class State(models.TextChoices):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    QUARANTINED = "quarantined"


FINAL = {State.SUCCEEDED, State.QUARANTINED}


def the_delay_has_passed(job: IngestionJob, facts: Facts) -> Unmet | None:
    if job.run_after is None or facts.at >= job.run_after:
        return None
    return Unmet("delayed", f"it is delayed until {format_utc(job.run_after)}")


def attempts_remain_or_an_operator_insists(job: IngestionJob, facts: Facts) -> Unmet | None:
    if job.attempts < job.max_attempts or facts.actor.kind is Kind.OPERATOR:
        return None
    return Unmet("attempts_exhausted", f"all {job.max_attempts} attempts are used")


def the_delay_is_not_negative(job: IngestionJob, facts: Facts) -> Unmet | None:
    delay = facts.params.get("delay_seconds", 0)
    return Unmet("negative_delay", f"delay_seconds is {delay}, but must not be negative") if delay < 0 else None


class IngestionJob(HeartbeatEntity):
    flow = Flow(
        version="1.0.3",
        collection="ingestion-jobs",
        prefix="ingest",
        final=FINAL,
        done={State.SUCCEEDED},
        timing={
            State.PENDING: Rest("it waits in the queue until a worker starts it"),
            State.RUNNING: STALLED_AFTER,
            State.FAILED: timedelta(minutes=10),
        },
        repeats_are_noops=True,
        free_in={State.PENDING},
        renewed_in={State.RUNNING},
        agents_set={"source": ANY, "metadata": ANY, "max_attempts": AtMost("STATECORE_AGENT_RETRIES")},
        monotonic=("attempts",),
    )

    state = StateField(State, initial=State.PENDING)
    source = models.CharField(max_length=500, blank=True)
    max_attempts = models.PositiveSmallIntegerField(default=3, validators=[MinValueValidator(1)])
    attempts = models.PositiveIntegerField(default=0, editable=False)
    # TextField, because PostgreSQL silently truncates a longer value that is cast to varchar.
    worker_name = models.TextField(default="", editable=False)
    run_after = models.DateTimeField(null=True, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(default="", editable=False)

    class Meta(HeartbeatEntity.Meta):
        constraints = (
            constraints.one_of("ingestion_job", "state", State),
            models.CheckConstraint(condition=models.Q(attempts__gte=0), name="ingestion_job_attempts_not_negative"),
            constraints.filled_exactly_in("ingestion_job", "worker_name", {State.RUNNING}),
            constraints.unset_in("ingestion_job", "run_after", set(State) - {State.PENDING}),
            constraints.set_in("ingestion_job", "started_at", {State.RUNNING}),
            constraints.set_exactly_in("ingestion_job", "completed_at", FINAL),
            *constraints.in_time_order("ingestion_job", "created_at", "started_at", "completed_at"),
        )
        indexes = (live_by_state("ingestion_job", FINAL),)

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        self.completed_at = at if state in FINAL else None
        if state != State.RUNNING:
            self.worker_name = ""
        if state != State.PENDING:
            self.run_after = None

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        return {"attempts": self.attempts, "worker_name": self.worker_name or None}

    def is_repeat(self, facts: Facts) -> bool:
        """Whether a report repeats what is recorded.

        A retry with another delay does not, nor does a report of another worker of the holder, which must not conclude
        that it has the job.
        """
        delay = facts.params.get("delay_seconds")
        if delay is not None and self.run_after != self.state_entered_at + timedelta(seconds=delay):
            return False
        named = facts.params.get("worker") or facts.actor.name
        return facts.actor.kind is not Kind.AGENT or self.worker_name in ("", named)

    @transition("start", source=State.PENDING, target=State.RUNNING, by={AGENT, SYSTEM}, guards=[the_delay_has_passed])
    def start(self, worker: str = "") -> None:
        self.worker_name = worker or self.facts.actor.name
        self.started_at = self.facts.at
        self.attempts += 1
        self.attempt += 1

    @transition(
        "succeed", source=State.RUNNING, target=State.SUCCEEDED, by={AGENT, SYSTEM}, guards=[the_attempt_is_current]
    )
    def succeed(self, attempt: int | None = None) -> None: ...

    @transition(
        "fail",
        source=State.RUNNING,
        target=State.FAILED,
        by={AGENT, SYSTEM},
        guards=[the_attempt_is_current],
        severity=Severity.ERROR,
    )
    def fail(self, error: str = "", attempt: int | None = None) -> None:
        self.last_error = error or self.facts.reason

    @transition(
        "retry",
        source=State.FAILED,
        target=State.PENDING,
        by={AGENT, OPERATOR, SYSTEM},
        guards=[the_attempt_is_current, attempts_remain_or_an_operator_insists, the_delay_is_not_negative],
        severity=Severity.WARNING,
    )
    def retry(self, delay_seconds: int = RETRY_DELAY_SECONDS, attempt: int | None = None) -> None:
        self._delay(delay_seconds)

    @transition(
        "retry",
        source=State.QUARANTINED,
        target=State.PENDING,
        by={OPERATOR},
        guards=[the_delay_is_not_negative],
        severity=Severity.WARNING,
        leaves_final="an operator may release a job that was quarantined by mistake",
    )
    def release(self, delay_seconds: int = 0) -> None:
        self._delay(delay_seconds)

    @transition(
        "quarantine",
        source=State.FAILED,
        target=State.QUARANTINED,
        by={AGENT, OPERATOR, SYSTEM},
        guards=[the_attempt_is_current],
        severity=Severity.ERROR,
    )
    def quarantine(self, attempt: int | None = None) -> None: ...

    def _delay(self, seconds: int) -> None:
        self.run_after = self.facts.at + timedelta(seconds=seconds)
