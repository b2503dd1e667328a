"""A UET worker: a process of the execution engine, spawned, drained and terminated."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import models

from ..kernel import constraints
from ..kernel.actors import AGENT, OPERATOR, SYSTEM
from ..kernel.entity import Entity
from ..kernel.flow import Flow
from ..kernel.indexes import live_by_state
from ..kernel.invariant import Invariant
from ..kernel.moves import Severity, move
from ..kernel.state_field import StateField
from ..kernel.validators import affinity_object

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
        version="1.0.0",
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
    )

    state = StateField(State, initial=State.SPAWNING)
    worker_type = models.CharField(max_length=64)
    affinity = models.JSONField(null=True, blank=True, validators=[affinity_object])
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
                "it is IDLE or BUSY, and two heartbeats are missing",
                lambda at: cls.objects.filter(
                    state__in=(State.IDLE, State.BUSY), last_heartbeat__lt=at - SILENCE_LIMIT
                ),
            ),
        )

    def settle(self, at: datetime, reason: str) -> None:
        if self._state.adding:
            self.last_heartbeat = at
        self.terminated_at = at if self.state in FINAL else None

    def journal_facts(self, trigger: str) -> dict[str, Any]:
        age = 0.0 if self._state.adding else (self.facts.at - self.last_heartbeat).total_seconds()
        return {"last_heartbeat_age_seconds": age, "crash_detected": trigger == "worker_crashed"}

    @move("initialization_completed", source=State.SPAWNING, target=State.IDLE, by={AGENT, SYSTEM})
    def initialize(self) -> None: ...

    @move("spawn_failed", source=State.SPAWNING, target=State.TERMINATED, by={AGENT, SYSTEM}, severity=Severity.ERROR)
    def fail_to_spawn(self, error: str = "") -> None:
        self.last_error = error

    @move("task_assigned", source=State.IDLE, target=State.BUSY, by={AGENT, SYSTEM})
    def take(self) -> None: ...

    @move("task_completed", source=State.BUSY, target=State.IDLE, by={AGENT, SYSTEM})
    def release(self) -> None: ...

    @move("shutdown_requested", source=State.IDLE, target=State.TERMINATED, by={AGENT, OPERATOR, SYSTEM})
    def shut_down(self) -> None: ...

    @move("shutdown_requested", source=State.BUSY, target=State.DRAINING, by={AGENT, OPERATOR, SYSTEM})
    def drain(self) -> None: ...

    @move("current_task_finished", source=State.DRAINING, target=State.TERMINATED, by={AGENT, SYSTEM})
    def finish_draining(self) -> None: ...

    @move("worker_crashed", source=State.BUSY, target=State.TERMINATED, by={AGENT, SYSTEM}, severity=Severity.ERROR)
    def crash(self, error: str = "") -> None:
        self.last_error = error
