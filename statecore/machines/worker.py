"""An orchestration worker: an agent's registration, with its capacity and heartbeats."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import OuterRef, Q
from django.db.models.lookups import GreaterThan

from ..framework.declarations import (
    ACTOR_NAME_LENGTH,
    AGENT,
    OPERATOR,
    SYSTEM,
    Actor,
    CountRows,
    Facts,
    Flow,
    HeartbeatEntity,
    Invariant,
    Rest,
    Severity,
    StateField,
    Unmet,
    constraints,
    format_utc,
    future_time_error,
    live_by_state,
    related,
    transition,
    validate_affinity,
    validate_word_list,
)

HEARTBEAT_INTERVAL = timedelta(seconds=60)
SILENCE_LIMIT = 2 * HEARTBEAT_INTERVAL
RECOVERY_WINDOW = timedelta(minutes=5)


class State(models.TextChoices):
    INITIALIZING = "initializing"
    IDLE = "idle"
    BUSY = "busy"
    SUSPENDED = "suspended"
    UNRESPONSIVE = "unresponsive"
    SHUTDOWN = "shutdown"


FINAL = {State.SHUTDOWN}


def it_holds_a_task(worker: Worker, facts: Facts) -> Unmet | None:
    return None if _load(worker, facts) > 0 else Unmet("no_load", "it holds no task")


def it_holds_no_task(worker: Worker, facts: Facts) -> Unmet | None:
    load = _load(worker, facts)
    return Unmet("has_load", f"its load is {load}, not 0") if load else None


def _load(worker: Worker, facts: Facts) -> int:
    """Returns the load after the transition."""
    load = facts.params.get("load")
    return worker.current_load if load is None else int(load)


def heartbeats_were_missed(worker: Worker, facts: Facts) -> Unmet | None:
    return _silence_exceeds(worker, SILENCE_LIMIT, facts)


def its_heartbeat_is_back(worker: Worker, facts: Facts) -> Unmet | None:
    if facts.at - worker.last_heartbeat <= SILENCE_LIMIT:
        return None
    return Unmet("no_heartbeat", f"its last heartbeat was at {format_utc(worker.last_heartbeat)}")


def the_recovery_window_has_passed(worker: Worker, facts: Facts) -> Unmet | None:
    return _silence_exceeds(worker, RECOVERY_WINDOW, facts)


def _silence_exceeds(worker: Worker, limit: timedelta, facts: Facts) -> Unmet | None:
    silence = facts.at - worker.last_heartbeat
    if silence > limit:
        return None
    seconds, allowed = silence.total_seconds(), limit.total_seconds()
    return Unmet("heard_from", f"its last heartbeat was {seconds:.0f} s ago, within the limit of {allowed:.0f} s")


def its_end_is_in_the_future(worker: Worker, facts: Facts) -> Unmet | None:
    return future_time_error("until", facts)


def it_is_being_suspended(worker: Worker, facts: Facts) -> Unmet | None:
    return None if worker.suspending else Unmet("not_suspended", "no operator has suspended it")


class Type(models.TextChoices):
    ORCHESTRATION = "orchestration"
    UET = "uet"


class Worker(HeartbeatEntity):
    flow = Flow(
        version="1.1.0",
        collection="workers",
        final=FINAL,
        timing={
            State.INITIALIZING: timedelta(minutes=2),
            State.IDLE: SILENCE_LIMIT,
            State.BUSY: SILENCE_LIMIT,
            State.SUSPENDED: Rest("an operator suspended it"),
            State.UNRESPONSIVE: RECOVERY_WINDOW,
        },
        renewed_in=set(State) - FINAL,
        frozen={"affinity": {State.INITIALIZING}},
        agents_change=("capabilities", "affinity", "max_concurrent_tasks", "metadata"),
    )

    volatile = (*HeartbeatEntity.volatile, "current_load", "draining", "commands", "commands_told")
    state = StateField(State, initial=State.INITIALIZING)
    worker_type = models.CharField(max_length=16, choices=Type.choices, default=Type.ORCHESTRATION)
    capabilities = models.JSONField(default=list, blank=True, validators=[validate_word_list])
    affinity = models.JSONField(null=True, blank=True, validators=[validate_affinity])
    max_concurrent_tasks = models.PositiveSmallIntegerField(default=1, validators=[MinValueValidator(1)])
    current_load = models.PositiveSmallIntegerField(default=0, editable=False)
    # It gets no new tasks and is shut down once it holds none.
    draining = models.BooleanField(default=False, editable=False)
    # It was suspended while busy: it gets no new tasks and is suspended once it holds none.
    suspending = models.BooleanField(default=False, db_default=False, editable=False)
    # When its suspension ends; NULL to wait for an operator.
    suspended_until = models.DateTimeField(null=True, editable=False)
    # Unused; the previous release may still write them during an upgrade. To be dropped in the next release.
    commands = models.JSONField(default=list, editable=False)
    commands_told = models.PositiveIntegerField(default=0, editable=False)
    last_heartbeat = models.DateTimeField(editable=False)
    # The name of the agent that registered it, which holds it.
    registered_by = models.CharField(max_length=ACTOR_NAME_LENGTH, default="", editable=False)
    shutdown_at = models.DateTimeField(null=True, editable=False)

    class Meta(HeartbeatEntity.Meta):
        constraints = (
            constraints.one_of("worker", "state", State),
            constraints.one_of("worker", "worker_type", Type),
            constraints.set_exactly_in("worker", "shutdown_at", FINAL),
            constraints.at_most("worker", "current_load", "max_concurrent_tasks"),
            *constraints.in_time_order("worker", "created_at", "last_heartbeat"),
            *constraints.in_time_order("worker", "created_at", "shutdown_at"),
        )
        # No index on `last_heartbeat`: each heartbeat would write all indexes of the row, and the sweep reads only the
        # few live workers.
        indexes = (live_by_state("worker", FINAL),)

    @classmethod
    def invariants(cls) -> Iterable[Invariant]:
        held = CountRows(related(cls, "tasks").objects.filter(worker=OuterRef("pk")).values("pk"))
        return (
            Invariant(
                "live_workers_are_heard_from",
                "it is idle or busy, but missed two heartbeats",
                lambda at: Q(state__in=(State.IDLE, State.BUSY), last_heartbeat__lt=at - SILENCE_LIMIT),
                breaks_by_waiting=True,
            ),
            Invariant(
                "load_is_the_number_of_running_tasks",
                "its load differs from the number of tasks it runs",
                lambda at: ~Q(current_load=held),
            ),
            Invariant(
                "registered_workers_hold_tasks",
                "it holds a task before it is registered",
                lambda at: Q(state=State.INITIALIZING) & Q(GreaterThan(held, 0)),
            ),
        )

    def reason_to_refuse_actor(self, actor: Actor) -> str | None:
        """Returns why the actor may not use it, as the end of a sentence, or None."""
        is_foreign = actor.holds and self.holder not in ("", actor.identity)
        return "belongs to another agent" if is_foreign else None

    def reason_to_refuse_task(self, workstream_id: str, required: Iterable[str]) -> str | None:
        """Returns why it cannot take such a task, as the end of a sentence, or None."""
        if reason := self.reason_to_refuse():
            return reason
        if missing := self.missing_capabilities(required):
            return f"lacks {', '.join(missing)}"
        return None if self.has_affinity_for(workstream_id) else f"has no affinity to workstream {workstream_id}"

    def missing_capabilities(self, required: Iterable[str]) -> list[str]:
        return sorted(set(required) - set(self.capabilities))

    def has_affinity_for(self, workstream_id: str) -> bool:
        """A worker without affinity accepts every workstream."""
        return not self.affinity or workstream_id in self.affinity.get("workstreams", [])

    def is_suspended(self) -> bool:
        """Whether an operator keeps it from taking tasks for a while."""
        return self.suspending or self.state == State.SUSPENDED

    def reason_to_refuse(self) -> str | None:
        """Returns why it cannot take any task, as the end of a sentence, or None."""
        if self.state != State.IDLE:
            return f"is {self.state}, not idle"
        if self.draining:
            return "is draining"
        if self.suspending:
            return "is being suspended"
        if self.current_load >= self.max_concurrent_tasks:
            return f"is full: {self.current_load} of {self.max_concurrent_tasks}"
        return None

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        if self._state.adding:
            self.registered_by = self.facts.actor.name if self.facts.actor.kind is AGENT else ""
        if state in (State.SUSPENDED, *FINAL):
            self.suspending = False
        if state != State.SUSPENDED and not self.suspending:
            self.suspended_until = None
        self.shutdown_at = at if state in FINAL else None

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        age = 0.0 if self._state.adding else (self.facts.at - self.last_heartbeat).total_seconds()
        return {
            "heartbeat_status": "healthy" if age <= SILENCE_LIMIT.total_seconds() else "missed",
            "current_load": self.current_load,
            "last_heartbeat_age_seconds": age,
            "crash_detected": trigger == "max_timeout_exceeded",
        }

    @transition("registration_completed", source=State.INITIALIZING, target=State.IDLE, by={AGENT, SYSTEM})
    def register(self) -> None: ...

    @transition("task_assigned", source=State.IDLE, target=State.BUSY, by={SYSTEM}, guards=[it_holds_a_task])
    def take(self, load: int | None = None) -> None:
        self.current_load = self.current_load if load is None else load
        self.last_heartbeat = max(self.last_heartbeat, self.facts.at)  # a claim counts as a heartbeat

    @transition("task_completed", source=State.BUSY, target=State.IDLE, by={SYSTEM}, guards=[it_holds_no_task])
    def release(self, load: int | None = None) -> None:
        self.current_load = self.current_load if load is None else load

    @transition(
        "health_check_timeout",
        source=State.BUSY,
        target=State.UNRESPONSIVE,
        by={SYSTEM},
        guards=[heartbeats_were_missed],
        severity=Severity.WARNING,
    )
    def miss(self) -> None: ...

    @transition(
        "health_check_recovered",
        source=State.UNRESPONSIVE,
        target=State.IDLE,
        by={AGENT, SYSTEM},
        guards=[its_heartbeat_is_back],
        severity=Severity.WARNING,
    )
    def recover(self) -> None: ...

    @transition(
        "max_timeout_exceeded",
        source=State.UNRESPONSIVE,
        target=State.SHUTDOWN,
        by={SYSTEM},
        guards=[the_recovery_window_has_passed],
        severity=Severity.ERROR,
    )
    def give_up(self) -> None: ...

    @transition(
        "worker_suspended",
        source=State.IDLE,
        target=State.SUSPENDED,
        by={OPERATOR, SYSTEM},
        guards=[its_end_is_in_the_future],
    )
    def suspend(self, until: str | None = None) -> None:
        if not self.suspending:
            self.suspended_until = datetime.fromisoformat(until) if until else None

    @transition(
        "worker_suspended",
        source=State.BUSY,
        target=State.BUSY,
        by={OPERATOR},
        guards=[its_end_is_in_the_future],
    )
    def suspend_when_idle(self, until: str | None = None) -> None:
        self.suspending = True
        self.suspended_until = datetime.fromisoformat(until) if until else None

    @transition("worker_resumed", source=State.SUSPENDED, target=State.IDLE, by={OPERATOR, SYSTEM})
    def resume(self) -> None: ...

    @transition("worker_resumed", source=State.BUSY, target=State.BUSY, by={OPERATOR}, guards=[it_is_being_suspended])
    def resume_before_idle(self) -> None:
        self.suspending = False

    @transition(
        "shutdown_requested",
        source={State.IDLE, State.BUSY, State.SUSPENDED},
        target=State.SHUTDOWN,
        by={AGENT, OPERATOR, SYSTEM},
    )
    def shut_down(self) -> None: ...
