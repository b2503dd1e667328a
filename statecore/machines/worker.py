"""An orchestration worker: an agent's registration, its capacity and whether it is alive."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import OuterRef

from ..kernel import constraints
from ..kernel.actors import AGENT, NAME_LENGTH, OPERATOR, SYSTEM, Actor
from ..kernel.clock import told
from ..kernel.entity import Entity
from ..kernel.fields import related
from ..kernel.flow import Flow
from ..kernel.how_many import HowMany
from ..kernel.indexes import live_by_state
from ..kernel.invariant import Invariant
from ..kernel.moves import Facts, Severity, move
from ..kernel.refusals import Unmet
from ..kernel.state_field import StateField
from ..kernel.validators import affinity_object, list_of_words

HEARTBEAT_INTERVAL = timedelta(seconds=60)
SILENCE_LIMIT = 2 * HEARTBEAT_INTERVAL
RECOVERY_WINDOW = timedelta(minutes=5)


class State(models.TextChoices):
    INITIALIZING = "initializing"
    IDLE = "idle"
    BUSY = "busy"
    UNRESPONSIVE = "unresponsive"
    SHUTDOWN = "shutdown"


FINAL = {State.SHUTDOWN}


def it_holds_a_task(worker: Worker, facts: Facts) -> Unmet | None:
    return None if _load(worker, facts) > 0 else Unmet("no_load", "it holds no task")


def it_holds_no_task(worker: Worker, facts: Facts) -> Unmet | None:
    load = _load(worker, facts)
    return Unmet("has_load", f"its load is {load}, not 0") if load else None


def _load(worker: Worker, facts: Facts) -> int:
    """What it holds from now on, where that changes with the move."""
    load = facts.params.get("load")
    return worker.current_load if load is None else int(load)


def heartbeats_were_missed(worker: Worker, facts: Facts) -> Unmet | None:
    return _silent_beyond(worker, SILENCE_LIMIT, facts)


def its_heartbeat_is_back(worker: Worker, facts: Facts) -> Unmet | None:
    if facts.at - worker.last_heartbeat <= SILENCE_LIMIT:
        return None
    return Unmet("no_heartbeat", f"its last heartbeat was at {told(worker.last_heartbeat)}")


def the_recovery_window_has_passed(worker: Worker, facts: Facts) -> Unmet | None:
    return _silent_beyond(worker, RECOVERY_WINDOW, facts)


def _silent_beyond(worker: Worker, limit: timedelta, facts: Facts) -> Unmet | None:
    silence = facts.at - worker.last_heartbeat
    if silence > limit:
        return None
    return Unmet("heard_from", f"it was heard from {silence.total_seconds():.0f} s ago, within {limit}")


class Type(models.TextChoices):
    ORCHESTRATION = "orchestration"
    UET = "uet"


class Worker(Entity):
    flow = Flow(
        version="1.0.0",
        collection="workers",
        final=FINAL,
        timing={
            State.INITIALIZING: timedelta(minutes=2),
            State.IDLE: SILENCE_LIMIT,
            State.BUSY: SILENCE_LIMIT,
            State.UNRESPONSIVE: RECOVERY_WINDOW,
        },
        measured_from=dict.fromkeys((State.IDLE, State.BUSY, State.UNRESPONSIVE), "last_heartbeat"),
        frozen={"affinity": {State.INITIALIZING}},
    )

    state = StateField(State, initial=State.INITIALIZING)
    worker_type = models.CharField(max_length=16, choices=Type.choices, default=Type.ORCHESTRATION)
    capabilities = models.JSONField(default=list, blank=True, validators=[list_of_words])
    affinity = models.JSONField(null=True, blank=True, validators=[affinity_object])
    max_concurrent_tasks = models.PositiveSmallIntegerField(default=1, validators=[MinValueValidator(1)])
    current_load = models.PositiveSmallIntegerField(default=0, editable=False)
    # Gets no new task and is shut down once it holds none.
    draining = models.BooleanField(default=False, editable=False)
    # Of the version before, which told each command until the next claim; the next version takes them away.
    commands = models.JSONField(default=list, editable=False)
    commands_told = models.PositiveIntegerField(default=0, editable=False)
    last_heartbeat = models.DateTimeField(editable=False)
    # The agent it belongs to: nobody else claims with it or lets it beat.
    registered_by = models.CharField(max_length=NAME_LENGTH, default="", editable=False)
    shutdown_at = models.DateTimeField(null=True, editable=False)

    class Meta(Entity.Meta):
        constraints = (
            constraints.one_of("worker", "state", State),
            constraints.one_of("worker", "worker_type", Type),
            constraints.set_exactly_in("worker", "shutdown_at", FINAL),
            constraints.at_most("worker", "current_load", "max_concurrent_tasks"),
            *constraints.in_time_order("worker", "created_at", "last_heartbeat"),
            *constraints.in_time_order("worker", "created_at", "shutdown_at"),
        )
        # None over `last_heartbeat`: each heartbeat would have to write every index of the row, and who looks for the
        # silent ones every few seconds reads the live ones, which are few.
        indexes = (live_by_state("worker", FINAL),)

    @classmethod
    def invariants(cls) -> Iterable[Invariant]:
        held = HowMany(related(cls, "tasks").objects.filter(worker=OuterRef("pk")).values("pk"))
        return (
            Invariant(
                "live_workers_are_heard_from",
                "it is idle or busy, and two heartbeats are missing",
                lambda at: cls.objects.filter(
                    state__in=(State.IDLE, State.BUSY), last_heartbeat__lt=at - SILENCE_LIMIT
                ),
            ),
            Invariant(
                "load_is_the_number_of_running_tasks",
                "its load is not the number of the tasks it runs",
                lambda at: cls.objects.exclude(current_load=held),
            ),
            Invariant(
                "registered_workers_hold_tasks",
                "it is not registered yet, and holds a task",
                lambda at: cls.objects.alias(held=held).filter(state=State.INITIALIZING, held__gt=0),
            ),
        )

    def holder(self) -> str:
        return self.registered_by

    def why_not_for(self, actor: Actor) -> str | None:
        """Why it takes nothing from this caller."""
        is_strange = actor.kind is AGENT and self.registered_by not in ("", actor.name)
        return "is another agent's" if is_strange else None

    def why_not(self, workstream_id: str, required: Iterable[str]) -> str | None:
        """Why this worker cannot take a task, as the rest of a sentence; None when it can."""
        if complaint := self.why_not_at_all():
            return complaint
        if lacking := self.lacking(required):
            return f"lacks {', '.join(lacking)}"
        return None if self.is_near(workstream_id) else f"has no affinity to workstream {workstream_id}"

    def lacking(self, required: Iterable[str]) -> list[str]:
        return sorted(set(required) - set(self.capabilities))

    def is_near(self, workstream_id: str) -> bool:
        """A worker without affinity is near to all."""
        return not self.affinity or workstream_id in self.affinity.get("workstreams", [])

    def why_not_at_all(self) -> str | None:
        """Why it can take no task whatsoever."""
        if self.state != State.IDLE:
            return f"is {self.state}, not idle"
        if self.draining:
            return "is draining"
        if self.current_load >= self.max_concurrent_tasks:
            return f"is full: {self.current_load} of {self.max_concurrent_tasks}"
        return None

    def settle(self, at: datetime, reason: str) -> None:
        if self._state.adding:
            self.last_heartbeat = at
            self.registered_by = self.facts.actor.name if self.facts.actor.kind is AGENT else ""
        self.shutdown_at = at if self.state in FINAL else None

    def journal_facts(self, trigger: str) -> dict[str, Any]:
        age = 0.0 if self._state.adding else (self.facts.at - self.last_heartbeat).total_seconds()
        return {
            "heartbeat_status": "healthy" if age <= SILENCE_LIMIT.total_seconds() else "missed",
            "current_load": self.current_load,
            "last_heartbeat_age_seconds": age,
            "crash_detected": trigger == "max_timeout_exceeded",
        }

    @move("registration_completed", source=State.INITIALIZING, target=State.IDLE, by={AGENT, SYSTEM})
    def register(self) -> None: ...

    @move("task_assigned", source=State.IDLE, target=State.BUSY, by={SYSTEM}, guards=[it_holds_a_task])
    def take(self, load: int | None = None) -> None:
        """A claim is a sign of life."""
        self.current_load = self.current_load if load is None else load
        self.last_heartbeat = max(self.last_heartbeat, self.facts.at)

    @move("task_completed", source=State.BUSY, target=State.IDLE, by={SYSTEM}, guards=[it_holds_no_task])
    def release(self, load: int | None = None) -> None:
        self.current_load = self.current_load if load is None else load

    @move(
        "health_check_timeout",
        source=State.BUSY,
        target=State.UNRESPONSIVE,
        by={SYSTEM},
        guards=[heartbeats_were_missed],
        severity=Severity.WARNING,
    )
    def miss(self) -> None: ...

    @move(
        "health_check_recovered",
        source=State.UNRESPONSIVE,
        target=State.IDLE,
        by={AGENT, SYSTEM},
        guards=[its_heartbeat_is_back],
        severity=Severity.WARNING,
    )
    def recover(self) -> None: ...

    @move(
        "max_timeout_exceeded",
        source=State.UNRESPONSIVE,
        target=State.SHUTDOWN,
        by={SYSTEM},
        guards=[the_recovery_window_has_passed],
        severity=Severity.ERROR,
    )
    def give_up(self) -> None: ...

    @move("shutdown_requested", source={State.IDLE, State.BUSY}, target=State.SHUTDOWN, by={AGENT, OPERATOR, SYSTEM})
    def shut_down(self) -> None: ...
