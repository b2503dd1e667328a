"""A UET worker: a process of the execution engine, spawned, drained and terminated."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import Q

from ..kernel import constraints
from ..kernel.actors import AGENT, OPERATOR, SYSTEM
from ..kernel.constraints import Invariant, live_by_state
from ..kernel.entity import Entity
from ..kernel.fields import StateField
from ..kernel.flow import Flow
from ..kernel.transition import Severity, transition
from ..kernel.validation import validate_affinity

SILENCE_LIMIT = timedelta(seconds=120)


class State(models.TextChoices):
    SPAWNING = "SPAWNING"
    IDLE = "IDLE"
    BUSY = "BUSY"
    DRAINING = "DRAINING"
    TERMINATED = "TERMINATED"


FINAL = {State.TERMINATED}


class UetWorker(Entity):
    flow = Flow(
        version="1.0.1",
        collection="uet-workers",
        prefix="uet",
        final=FINAL,
        timing={
            State.SPAWNING: timedelta(minutes=2),
            State.IDLE: SILENCE_LIMIT,
            State.BUSY: SILENCE_LIMIT,
            State.DRAINING: timedelta(minutes=30),
        },
        measured_from=dict.fromkeys((State.IDLE, State.BUSY), "last_heartbeat"),
        frozen={"affinity": {State.SPAWNING}},
        agents_change=("affinity", "metadata"),
    )

    volatile = ("last_heartbeat",)
    state = StateField(State, initial=State.SPAWNING)
    worker_type = models.CharField(max_length=64)
    affinity = models.JSONField(null=True, blank=True, validators=[validate_affinity])
    last_heartbeat = models.DateTimeField(editable=False)
    terminated_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(default="", editable=False)

    class Meta(Entity.Meta):
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

    def sync_state_fields(self, at: datetime, reason: str) -> None:
        if self._state.adding:
            self.last_heartbeat = at
        self.terminated_at = at if self.state in FINAL else None

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        age = 0.0 if self._state.adding else (self.facts.at - self.last_heartbeat).total_seconds()
        return {"last_heartbeat_age_seconds": age, "crash_detected": trigger == "worker_crashed"}

    @transition("initialization_completed", source=State.SPAWNING, target=State.IDLE, by={AGENT, SYSTEM})
    def initialize(self) -> None: ...

    @transition(
        "spawn_failed", source=State.SPAWNING, target=State.TERMINATED, by={AGENT, SYSTEM}, severity=Severity.ERROR
    )
    def fail_to_spawn(self, error: str = "") -> None:
        self.last_error = error

    @transition("task_assigned", source=State.IDLE, target=State.BUSY, by={AGENT, SYSTEM})
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
