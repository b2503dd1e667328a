"""A supervised job: submitted, validated, and run by the workers that are allocated to it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
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
    is_valid_id,
    live_by_state,
    the_attempt_is_current,
    transition,
)

MAX_DEPTH = 5
MAX_WORKERS = 10


class State(models.TextChoices):
    SUBMITTED = "SUBMITTED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


FINAL = {State.COMPLETED, State.FAILED, State.CANCELED}
LIVE = set(State) - FINAL
# States that only a valid job reaches.
VALID = {State.PENDING, State.RUNNING, State.COMPLETED}


def the_task_is_described(job: SupervisedJob, facts: Facts) -> Unmet | None:
    return None if job.task_description.strip() else Unmet("no_description", "task_description is empty")


def it_lies_one_below_its_parent(job: SupervisedJob, facts: Facts) -> Unmet | None:
    if job.parent_job is None or job.depth == job.parent_job.depth + 1:
        return None
    expected = job.parent_job.depth + 1
    return Unmet("wrong_depth", f"its depth is {job.depth}, but its parent requires {expected}", job.parent_job_id)


def the_workers_are_named(job: SupervisedJob, facts: Facts) -> Unmet | None:
    invalid = [worker for worker in facts.params.get("workers", ()) if not is_valid_id(worker)]
    return Unmet("not_a_worker", f"{invalid[0]!r} is not a valid id") if invalid else None


def enough_workers_are_allocated(job: SupervisedJob, facts: Facts) -> Unmet | None:
    given = len({worker for worker in facts.params.get("workers", ()) if is_valid_id(worker)})
    if given >= job.worker_count:
        return None
    return Unmet("too_few_workers", f"{given} of {job.worker_count} workers are allocated")


class SupervisedJob(HeartbeatEntity):
    flow = Flow(
        version="1.0.2",
        collection="supervised-jobs",
        prefix="sjob",
        final=FINAL,
        done={State.COMPLETED},
        timing={
            State.SUBMITTED: timedelta(minutes=5),
            State.PENDING: Rest("it waits for workers; allocation is tried again"),
            State.RUNNING: timedelta(hours=1),
        },
        free_in={State.SUBMITTED, State.PENDING},
        renewed_in={State.RUNNING},
    )

    volatile = (*HeartbeatEntity.volatile, "allocated_workers")
    state = StateField(State, initial=State.SUBMITTED)
    task_description = models.TextField(blank=True)
    depth = models.SmallIntegerField(default=0, validators=[MinValueValidator(0), MaxValueValidator(MAX_DEPTH)])
    parent_job = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="child_jobs")
    worker_count = models.PositiveSmallIntegerField(
        default=1, validators=[MinValueValidator(1), MaxValueValidator(MAX_WORKERS)]
    )
    allocated_workers = models.JSONField(default=list, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)
    result = models.JSONField(null=True, editable=False)
    last_error = models.TextField(default="", editable=False)

    class Meta(HeartbeatEntity.Meta):
        constraints = (
            constraints.one_of("supervised_job", "state", State),
            constraints.between("supervised_job", "depth", 0, MAX_DEPTH),
            constraints.between("supervised_job", "worker_count", 1, MAX_WORKERS),
            constraints.filled_in("supervised_job", "task_description", VALID),
            constraints.set_in("supervised_job", "started_at", {State.RUNNING}),
            constraints.unset_in("supervised_job", "started_at", {State.SUBMITTED, State.PENDING}),
            constraints.set_exactly_in("supervised_job", "completed_at", FINAL),
            *constraints.in_time_order("supervised_job", "created_at", "started_at", "completed_at"),
        )
        indexes = (live_by_state("supervised_job", FINAL),)

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        self.completed_at = at if state in FINAL else None
        if state == State.RUNNING:
            self.started_at = self.started_at or at
        else:
            self.allocated_workers = []
        if state in (State.SUBMITTED, State.PENDING):
            self.started_at = None

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        """Records the workers, because the job releases them when it stops running."""
        return {"allocated_workers": self.allocated_workers, "depth": self.depth, "parent_job_id": self.parent_job_id}

    @transition(
        "validate",
        source=State.SUBMITTED,
        target=State.PENDING,
        by={AGENT, SYSTEM},
        guards=[the_task_is_described, it_lies_one_below_its_parent],
    )
    def accept(self) -> None: ...

    @transition("validation_error", source=State.SUBMITTED, target=State.FAILED, by={SYSTEM}, severity=Severity.ERROR)
    def reject(self, error: str) -> None:
        self.last_error = error

    @transition(
        "allocate_resources",
        source=State.PENDING,
        target=State.RUNNING,
        by={AGENT, SYSTEM},
        guards=[the_workers_are_named, enough_workers_are_allocated],
    )
    def allocate(self, workers: list[str]) -> None:
        self.allocated_workers = list(dict.fromkeys(workers))
        self.attempt += 1

    @transition(
        "success", source=State.RUNNING, target=State.COMPLETED, by={AGENT, SYSTEM}, guards=[the_attempt_is_current]
    )
    def finish(self, result: dict[str, Any] | None = None, attempt: int | None = None) -> None:
        self.result = result

    @transition(
        "error",
        source=State.RUNNING,
        target=State.FAILED,
        by={AGENT, SYSTEM},
        guards=[the_attempt_is_current],
        severity=Severity.ERROR,
    )
    def fail(self, error: str = "", attempt: int | None = None) -> None:
        self.last_error = error or self.facts.reason

    @transition("cancel", source=LIVE, target=State.CANCELED, by={OPERATOR, SYSTEM}, severity=Severity.WARNING)
    def cancel(self) -> None: ...
