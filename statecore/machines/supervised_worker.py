"""A supervised worker: paused, resumed and terminated by its supervisor, and completed with its last task."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.core.validators import MinValueValidator
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
    Succession,
    Unmet,
    clock,
    constraints,
    live_by_state,
    transition,
)


class State(models.TextChoices):
    IDLE = "IDLE"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TERMINATED = "TERMINATED"


FINAL = {State.COMPLETED, State.FAILED, State.TERMINATED}
LIVE = set(State) - FINAL
UNDER_WAY = {State.RUNNING, State.PAUSED}
# How often it retries after transient errors in a row. An error counts as the first again this long after a retry.
MAX_RETRIES = 3
CALM = timedelta(minutes=10)


def it_has_capacity(worker: SupervisedWorker, facts: Facts) -> Unmet | None:
    if worker.active_tasks < worker.capacity:
        return None
    return Unmet("no_capacity", f"it is full: {worker.active_tasks} of {worker.capacity}")


def no_task_is_pending(worker: SupervisedWorker, facts: Facts) -> Unmet | None:
    pending = worker.pending_tasks
    return Unmet("tasks_pending", f"{pending} tasks are pending") if pending else None


def the_error_is_not_retryable(worker: SupervisedWorker, facts: Facts) -> Unmet | None:
    retryable = facts.params.get("retryable", False)
    return Unmet("retryable", "the error is retryable: report it with error_transient") if retryable else None


def retries_remain(worker: SupervisedWorker, facts: Facts) -> Unmet | None:
    if worker.count_retries(facts.at) < MAX_RETRIES:
        return None
    return Unmet("retries_exhausted", f"all {MAX_RETRIES} retries are used")


class SupervisedWorker(HeartbeatEntity):
    flow = Flow(
        version="1.1.0",
        collection="supervised-workers",
        prefix="sworker",
        final=FINAL,
        done={State.COMPLETED},
        timing={
            State.IDLE: Rest("it waits for its first task"),
            State.RUNNING: timedelta(hours=1),
            State.PAUSED: Rest("its supervisor resumes or terminates it"),
        },
        renewed_in=LIVE,
        succession=Succession(leaves_behind=("pending_tasks", "active_tasks")),
        agents_change=("capacity", "pending_tasks", "active_tasks", "metadata"),
    )

    volatile = (*HeartbeatEntity.volatile, "pending_tasks", "active_tasks")
    state = StateField(State, initial=State.IDLE)
    workspace_id = models.CharField(max_length=64)
    capacity = models.PositiveSmallIntegerField(default=1, validators=[MinValueValidator(1)])
    # Reported by the worker.
    pending_tasks = models.PositiveIntegerField(default=0)
    active_tasks = models.PositiveSmallIntegerField(default=0)
    # Its retries after transient errors, and when the last one is due.
    retry_count = models.PositiveSmallIntegerField(default=0, db_default=0, editable=False)
    retry_at = models.DateTimeField(null=True, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(default="", editable=False)

    class Meta(HeartbeatEntity.Meta):
        constraints = (
            constraints.one_of("supervised_worker", "state", State),
            constraints.at_most("supervised_worker", "active_tasks", "capacity"),
            constraints.set_in("supervised_worker", "started_at", UNDER_WAY),
            constraints.unset_in("supervised_worker", "started_at", {State.IDLE}),
            constraints.set_exactly_in("supervised_worker", "completed_at", FINAL),
            *constraints.in_time_order("supervised_worker", "created_at", "started_at", "completed_at"),
        )
        indexes = (
            live_by_state("super_worker", FINAL),
            models.Index(fields=("workspace_id",), name="sworker_by_workspace"),
        )

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        self.completed_at = at if state in FINAL else None
        if state == State.IDLE:
            self.started_at = None
        elif state in UNDER_WAY:
            self.started_at = self.started_at or at
        else:
            self.active_tasks = 0

    def count_retries(self, at: datetime) -> int:
        """Returns how often it has retried in a row."""
        return 0 if self.retry_at is None or at - self.retry_at > CALM else self.retry_count

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        return {
            "workspace_id": self.workspace_id,
            "active_tasks": self.active_tasks,
            "pending_tasks": self.pending_tasks,
        }

    @transition("start_task", source=State.IDLE, target=State.RUNNING, by={AGENT, SYSTEM}, guards=[it_has_capacity])
    def start(self) -> None:
        self.active_tasks += 1

    @transition("pause", source=State.RUNNING, target=State.PAUSED, by={OPERATOR, SYSTEM}, severity=Severity.WARNING)
    def pause(self) -> None: ...

    @transition("resume", source=State.PAUSED, target=State.RUNNING, by={OPERATOR, SYSTEM})
    def resume(self) -> None: ...

    @transition(
        "complete_tasks", source=State.RUNNING, target=State.COMPLETED, by={AGENT, SYSTEM}, guards=[no_task_is_pending]
    )
    def finish(self) -> None: ...

    @transition(
        "error_unrecoverable",
        source=State.RUNNING,
        target=State.FAILED,
        by={AGENT, SYSTEM},
        guards=[the_error_is_not_retryable],
        severity=Severity.ERROR,
    )
    def fail(self, error: str, retryable: bool = False) -> None:
        self.last_error = error

    @transition(
        "error_transient",
        source=State.RUNNING,
        target=State.RUNNING,
        by={AGENT, SYSTEM},
        guards=[retries_remain],
        severity=Severity.WARNING,
    )
    def retry_later(self, error: str) -> None:
        """The worker repeats the failed step at `retry_at`."""
        self.last_error = error
        self.retry_count = self.count_retries(self.facts.at) + 1
        self.retry_at = self.facts.at + clock.retry_delay(self.pk, self.retry_count)

    @transition(
        "error_transient", source=State.RUNNING, target=State.FAILED, by={AGENT, SYSTEM}, severity=Severity.ERROR
    )
    def give_up(self, error: str) -> None:
        self.last_error = error

    @transition(
        "resources_exhausted",
        source=State.RUNNING,
        target=State.PAUSED,
        by={AGENT, SYSTEM},
        severity=Severity.WARNING,
    )
    def pause_exhausted(self, error: str = "") -> None:
        """It releases what it holds, and waits for its supervisor."""
        self.active_tasks = 0
        self.last_error = error or "resources exhausted"

    @transition("terminate", source=LIVE, target=State.TERMINATED, by={OPERATOR, SYSTEM}, severity=Severity.WARNING)
    def terminate(self) -> None: ...
