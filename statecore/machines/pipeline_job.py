"""A pipeline job: advances through its stages, from import to validated datasets, and never goes back."""

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
    live_by_state,
    transition,
)


class State(models.TextChoices):
    PENDING = "PENDING"
    ANALYZING = "ANALYZING"
    MAPPING = "MAPPING"
    MATERIALIZING = "MATERIALIZING"
    VALIDATING = "VALIDATING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


FINAL = {State.DONE, State.FAILED, State.CANCELLED}
LIVE = set(State) - FINAL
WORKING = LIVE - {State.PENDING}
STAGES = tuple(State)


def before(stage: State) -> tuple[State, ...]:
    """Returns the stages before this one, in the order of their declaration."""
    return STAGES[: STAGES.index(stage)]


def an_error_is_given(job: PipelineJob, facts: Facts) -> Unmet | None:
    has_error = facts.params.get("error", "").strip() or facts.reason
    return None if has_error else Unmet("no_error", "a failure requires an error or a reason")


class PipelineJob(HeartbeatEntity):
    flow = Flow(
        version="1.0.3",
        collection="pipeline-jobs",
        prefix="pipeline",
        final=FINAL,
        done={State.DONE},
        timing={
            State.PENDING: Rest("it is registered and waits for work to begin"),
            State.ANALYZING: timedelta(minutes=30),
            # People review the mapping.
            State.MAPPING: timedelta(days=1),
            State.MATERIALIZING: timedelta(hours=2),
            State.VALIDATING: timedelta(minutes=30),
        },
        free_in={State.PENDING},
        renewed_in=WORKING,
        # A successor needs no copy of the checkpoints: records.checkpoint reads them along `retry_of`.
    )

    volatile = (*HeartbeatEntity.volatile, "resumed_at")
    state = StateField(State, initial=State.PENDING)
    profile = models.CharField(max_length=200, blank=True)
    command = models.TextField(blank=True)
    detail = models.TextField(default="", editable=False)
    last_error = models.TextField(default="", editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)
    # When recovery last released it, in its current stage, to be resumed from its checkpoint.
    resumed_at = models.DateTimeField(null=True, editable=False)

    class Meta(HeartbeatEntity.Meta):
        constraints = (
            constraints.one_of("pipeline_job", "state", State),
            constraints.filled_in("pipeline_job", "last_error", {State.FAILED}),
            constraints.set_in("pipeline_job", "started_at", WORKING),
            constraints.unset_in("pipeline_job", "started_at", {State.PENDING}),
            constraints.set_exactly_in("pipeline_job", "completed_at", FINAL),
            *constraints.in_time_order("pipeline_job", "created_at", "started_at", "completed_at"),
        )
        indexes = (live_by_state("pipeline_job", FINAL),)

    def is_free(self) -> bool:
        """Also if recovery has released it in its current stage: the next agent resumes it from its checkpoint."""
        is_released = self.resumed_at is not None and self.resumed_at > self.state_entered_at
        return is_released or super().is_free()

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        self.completed_at = at if state in FINAL else None
        if state == State.PENDING:
            self.started_at = None
        elif state in WORKING:
            self.started_at = self.started_at or at
            self.last_heartbeat = at  # a new stage is progress, also if the system enters it
        if state == State.FAILED:
            self.last_error = self.last_error or reason

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        return {"detail": self.detail or None, "last_error": self.last_error or None}

    @transition("analyze", source=before(State.ANALYZING), target=State.ANALYZING, by={AGENT, SYSTEM})
    def analyze(self, detail: str = "") -> None:
        self.detail = detail

    @transition("map", source=before(State.MAPPING), target=State.MAPPING, by={AGENT, SYSTEM})
    def map(self, detail: str = "") -> None:
        self.detail = detail

    @transition("materialize", source=before(State.MATERIALIZING), target=State.MATERIALIZING, by={AGENT, SYSTEM})
    def materialize(self, detail: str = "") -> None:
        self.detail = detail

    @transition("validate", source=before(State.VALIDATING), target=State.VALIDATING, by={AGENT, SYSTEM})
    def validate(self, detail: str = "") -> None:
        self.detail = detail

    @transition("finish", source=before(State.DONE), target=State.DONE, by={AGENT, SYSTEM})
    def finish(self, detail: str = "") -> None:
        self.detail = detail

    @transition(
        "fail",
        source=before(State.DONE),
        target=State.FAILED,
        by={AGENT, SYSTEM},
        guards=[an_error_is_given],
        severity=Severity.ERROR,
    )
    def fail(self, error: str) -> None:
        self.last_error = self.detail = error.strip() or self.facts.reason

    @transition(
        "cancel",
        source=before(State.DONE),
        target=State.CANCELLED,
        by={AGENT, OPERATOR, SYSTEM},
        severity=Severity.WARNING,
    )
    def cancel(self, detail: str = "") -> None:
        self.detail = detail or self.facts.reason
