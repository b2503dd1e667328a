"""An agent job: its state follows from its event log, and the state column is a cache."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import models

from ..framework.declarations import (
    AGENT,
    OPERATOR,
    SYSTEM,
    Facts,
    Flow,
    HeartbeatEntity,
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

CREATED = "job_created"


class State(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PARKED = "parked"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL = {State.COMPLETED, State.FAILED, State.CANCELLED}
BLOCKED = {State.WAITING, State.PARKED}


def the_retry_is_due(job: AgentJob, facts: Facts) -> Unmet | None:
    if job.retry_at is None or facts.at >= job.retry_at:
        return None
    return Unmet("backing_off", f"the next attempt is due at {format_utc(job.retry_at)}")


def the_delay_is_not_negative(job: AgentJob, facts: Facts) -> Unmet | None:
    delay = facts.params.get("delay_seconds", 0)
    return Unmet("negative_delay", f"delay_seconds is {delay}, but must not be negative") if delay < 0 else None


def the_signal_is_awaited(job: AgentJob, facts: Facts) -> Unmet | None:
    """A caller that names no signal ends any wait."""
    signal = facts.params.get("signal", "")
    if signal in ("", job.waiting_for) or job.waiting_for == "":
        return None
    return Unmet("wrong_signal", f"it waits for {job.waiting_for}, not for {signal}")


class AgentJob(HeartbeatEntity):
    creation_trigger = CREATED
    flow = Flow(
        version="1.1.0",
        collection="agent-jobs",
        final=FINAL,
        done={State.COMPLETED},
        timing={
            State.QUEUED: Rest("it waits in the queue until a worker leases it"),
            State.RUNNING: timedelta(minutes=30),
            State.WAITING: timedelta(hours=1),
            State.PARKED: Rest("it waits for a signal without a time limit"),
            State.RETRYING: timedelta(minutes=20),
        },
        free_in={State.QUEUED, State.RETRYING},
        renewed_in={State.RUNNING},
    )

    state = StateField(State, initial=State.QUEUED)
    agent = models.CharField(max_length=150, blank=True)
    goal = models.TextField(blank=True)
    # TextField, because PostgreSQL silently truncates a longer value that is cast to varchar.
    worker_name = models.TextField(default="", editable=False)
    waiting_for = models.TextField(default="", editable=False)
    retry_at = models.DateTimeField(null=True, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)
    result = models.JSONField(null=True, editable=False)
    last_error = models.TextField(default="", editable=False)

    class Meta(HeartbeatEntity.Meta):
        constraints = (
            constraints.one_of("agent_job", "state", State),
            constraints.filled_exactly_in("agent_job", "worker_name", {State.RUNNING}),
            models.CheckConstraint(
                condition=models.Q(state__in=sorted(BLOCKED)) | models.Q(waiting_for=""),
                name="agent_job_waits_for_something_only_when_blocked",
            ),
            constraints.unset_in("agent_job", "retry_at", set(State) - {State.RETRYING}),
            constraints.set_in("agent_job", "started_at", {State.RUNNING}),
            constraints.set_exactly_in("agent_job", "completed_at", FINAL),
            *constraints.in_time_order("agent_job", "created_at", "started_at", "completed_at"),
        )
        indexes = (live_by_state("agent_job", FINAL),)

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        self.completed_at = at if state in FINAL else None
        if state != State.RUNNING:
            self.worker_name = ""
        if state not in BLOCKED:
            self.waiting_for = ""
        if state != State.RETRYING:
            self.retry_at = None

    @transition(
        "job_requeued",
        source={State.QUEUED, State.RUNNING, State.RETRYING},
        target=State.QUEUED,
        by={AGENT, OPERATOR, SYSTEM},
        guards=[the_attempt_is_current],
        severity=Severity.WARNING,
    )
    def requeue(self, attempt: int | None = None) -> None: ...

    @transition(
        "job_requeued",
        source=State.FAILED,
        target=State.QUEUED,
        by={AGENT, OPERATOR, SYSTEM},
        guards=[the_attempt_is_current],
        severity=Severity.WARNING,
        leaves_final="a failed job is queued again in place, so that its log continues",
    )
    def requeue_after_failure(self, attempt: int | None = None) -> None: ...

    @transition(
        "job_leased",
        source={State.QUEUED, State.RETRYING},
        target=State.RUNNING,
        by={AGENT, SYSTEM},
        guards=[the_retry_is_due],
    )
    def lease(self, worker: str = "") -> None:
        self._begin(worker)

    @transition(
        "job_running",
        source={State.QUEUED, State.RETRYING},
        target=State.RUNNING,
        by={AGENT, SYSTEM},
        guards=[the_retry_is_due],
    )
    def run(self, worker: str = "") -> None:
        self._begin(worker)

    @transition(
        "job_waiting", source=State.RUNNING, target=State.WAITING, by={AGENT, SYSTEM}, guards=[the_attempt_is_current]
    )
    def wait(self, signal: str = "", attempt: int | None = None) -> None:
        self.waiting_for = signal

    @transition("job_parked", source=State.WAITING, target=State.PARKED, by={OPERATOR, SYSTEM})
    def park(self) -> None: ...

    @transition(
        "wait_completed",
        source={State.QUEUED, State.RUNNING, *BLOCKED, State.RETRYING},
        target=State.QUEUED,
        by={AGENT, OPERATOR, SYSTEM},
        guards=[the_signal_is_awaited],
    )
    def wake(self, signal: str = "") -> None: ...

    @transition(
        "job_completed",
        source=State.RUNNING,
        target=State.COMPLETED,
        by={AGENT, SYSTEM},
        guards=[the_attempt_is_current],
    )
    def finish(self, result: dict[str, Any] | None = None, attempt: int | None = None) -> None:
        self.result = result

    @transition(
        "job_failed",
        source=State.RUNNING,
        target=State.FAILED,
        by={AGENT, SYSTEM},
        guards=[the_attempt_is_current],
        severity=Severity.ERROR,
    )
    def fail(self, error: str = "", attempt: int | None = None) -> None:
        self.last_error = error or self.facts.reason

    @transition(
        "job_cancelled",
        source={State.RUNNING, *BLOCKED},
        target=State.CANCELLED,
        by={AGENT, OPERATOR, SYSTEM},
        guards=[the_attempt_is_current],
        severity=Severity.WARNING,
    )
    def cancel(self, attempt: int | None = None) -> None: ...

    @transition(
        "job_retry_scheduled",
        source=State.RUNNING,
        target=State.RETRYING,
        by={OPERATOR, SYSTEM},
        guards=[the_delay_is_not_negative],
        severity=Severity.WARNING,
    )
    def schedule_retry(self, delay_seconds: int = 0, error: str = "") -> None:
        self._retry_later(delay_seconds, error)

    @transition(
        "job_retry_scheduled",
        source=State.FAILED,
        target=State.RETRYING,
        by={OPERATOR, SYSTEM},
        guards=[the_delay_is_not_negative],
        severity=Severity.WARNING,
        leaves_final="a failed job may be scheduled for a retry",
    )
    def schedule_retry_after_failure(self, delay_seconds: int = 0, error: str = "") -> None:
        self._retry_later(delay_seconds, error)

    def _begin(self, worker: str) -> None:
        self.worker_name = worker or self.facts.actor.name
        self.started_at = self.facts.at
        self.attempt += 1

    def _retry_later(self, delay_seconds: int, error: str) -> None:
        self.retry_at = self.facts.at + timedelta(seconds=delay_seconds)
        self.last_error = error or self.last_error
