"""A UET worker: a process of the execution engine, spawned, drained and terminated."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import Q

from ..framework.declarations import (
    AGENT,
    OPERATOR,
    SYSTEM,
    Facts,
    Flow,
    HeartbeatEntity,
    Invariant,
    Severity,
    StateField,
    Unmet,
    constraints,
    format_utc,
    live_by_state,
    transition,
    validate_affinity,
)

SILENCE_LIMIT = timedelta(seconds=120)
# How long a worker without heartbeats stays in quarantine before it is given up, counted from its last heartbeat.
QUARANTINE_LIMIT = timedelta(minutes=5)


class State(models.TextChoices):
    SPAWNING = "SPAWNING"
    IDLE = "IDLE"
    BUSY = "BUSY"
    DRAINING = "DRAINING"
    TERMINATED = "TERMINATED"


FINAL = {State.TERMINATED}


def it_is_not_in_quarantine(worker: UetWorker, facts: Facts) -> Unmet | None:
    if worker.quarantined_at is None:
        return None
    return Unmet("quarantined", f"it is in quarantine since {format_utc(worker.quarantined_at)}: no heartbeats")


class UetWorker(HeartbeatEntity):
    flow = Flow(
        version="1.0.2",
        collection="uet-workers",
        prefix="uet",
        final=FINAL,
        timing={
            State.SPAWNING: timedelta(minutes=2),
            State.IDLE: SILENCE_LIMIT,
            State.BUSY: SILENCE_LIMIT,
            State.DRAINING: timedelta(minutes=30),
        },
        renewed_in=set(State) - FINAL,
        frozen={"affinity": {State.SPAWNING}},
        agents_change=("affinity", "metadata"),
    )

    state = StateField(State, initial=State.SPAWNING)
    worker_type = models.CharField(max_length=64)
    affinity = models.JSONField(null=True, blank=True, validators=[validate_affinity])
    last_heartbeat = models.DateTimeField(editable=False)
    # Since when it gets no task because it missed two heartbeats; its next heartbeat ends the quarantine.
    quarantined_at = models.DateTimeField(null=True, editable=False)
    terminated_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(default="", editable=False)

    class Meta(HeartbeatEntity.Meta):
        verbose_name = "UET worker"
        constraints = (
            constraints.one_of("uet_worker", "state", State),
            constraints.set_exactly_in("uet_worker", "terminated_at", FINAL),
            *constraints.in_time_order("uet_worker", "created_at", "last_heartbeat"),
            *constraints.in_time_order("uet_worker", "created_at", "terminated_at"),
        )
        indexes = (
            live_by_state("uet_worker", FINAL),
            models.Index(
                fields=("last_heartbeat",),
                condition=~models.Q(state__in=sorted(FINAL)),
                name="uet_worker_live_by_heartbeat",
            ),
        )

    @classmethod
    def invariants(cls) -> Iterable[Invariant]:
        return (
            Invariant(
                "live_uet_workers_are_heard_from",
                "it is IDLE or BUSY, but missed two heartbeats",
                lambda at: Q(state__in=(State.IDLE, State.BUSY), last_heartbeat__lt=at - SILENCE_LIMIT),
                breaks_by_waiting=True,
            ),
        )

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        self.terminated_at = at if state in FINAL else None

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        age = 0.0 if self._state.adding else (self.facts.at - self.last_heartbeat).total_seconds()
        return {
            "heartbeat_status": self._heartbeat_status(age),
            "current_load": int(self.state in (State.BUSY, State.DRAINING)),
            "last_heartbeat_age_seconds": age,
            "crash_detected": trigger == "worker_crashed",
        }

    def _heartbeat_status(self, age: float) -> str:
        if self.quarantined_at is not None:
            return "quarantined"
        return "healthy" if age <= SILENCE_LIMIT.total_seconds() else "missed"

    @transition("initialization_completed", source=State.SPAWNING, target=State.IDLE, by={AGENT, SYSTEM})
    def initialize(self) -> None: ...

    @transition(
        "spawn_failed", source=State.SPAWNING, target=State.TERMINATED, by={AGENT, SYSTEM}, severity=Severity.ERROR
    )
    def fail_to_spawn(self, error: str = "") -> None:
        self.last_error = error

    @transition(
        "task_assigned",
        source=State.IDLE,
        target=State.BUSY,
        by={AGENT, SYSTEM},
        guards=[it_is_not_in_quarantine],
    )
    def take(self) -> None: ...

    @transition("task_completed", source=State.BUSY, target=State.IDLE, by={AGENT, SYSTEM})
    def release(self) -> None: ...

    @transition("shutdown_requested", source=State.IDLE, target=State.TERMINATED, by={AGENT, OPERATOR, SYSTEM})
    def shut_down(self) -> None: ...

    @transition("shutdown_requested", source=State.BUSY, target=State.DRAINING, by={AGENT, OPERATOR, SYSTEM})
    def drain(self) -> None: ...

    @transition("current_task_finished", source=State.DRAINING, target=State.TERMINATED, by={AGENT, SYSTEM})
    def finish_draining(self) -> None: ...

    @transition(
        "worker_crashed", source=State.BUSY, target=State.TERMINATED, by={AGENT, SYSTEM}, severity=Severity.ERROR
    )
    def crash(self, error: str = "") -> None:
        self.last_error = error
