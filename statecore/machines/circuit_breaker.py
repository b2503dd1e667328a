"""A circuit breaker: blocks calls to a tool that keeps failing, until a probe succeeds."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.core.validators import MinValueValidator
from django.db import models

from ..framework.declarations import (
    IDENTITY_LENGTH,
    OPERATOR,
    SYSTEM,
    Entity,
    Facts,
    Flow,
    Rest,
    Severity,
    StateField,
    Unmet,
    constraints,
    format_utc,
    transition,
)


class State(models.TextChoices):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


def the_threshold_is_reached(breaker: CircuitBreaker, facts: Facts) -> Unmet | None:
    if breaker.failure_count >= breaker.failure_threshold:
        return None
    return Unmet("below_threshold", f"{breaker.failure_count} of {breaker.failure_threshold} failures so far")


def the_cooldown_has_passed(breaker: CircuitBreaker, facts: Facts) -> Unmet | None:
    until = breaker.cools_down_at()
    return Unmet("cooling_down", f"the cooldown ends at {format_utc(until)}") if facts.at < until else None


def enough_probes_succeeded(breaker: CircuitBreaker, facts: Facts) -> Unmet | None:
    """Includes the success that is being reported."""
    if breaker.success_count + 1 >= breaker.success_threshold:
        return None
    return Unmet("more_probes", f"{breaker.success_count + 1} of {breaker.success_threshold} successes so far")


class CircuitBreaker(Entity):
    """The breaker of a tool; both have the same id."""

    flow = Flow(
        version="1.1.0",
        collection="breakers",
        prefix="tool",
        final=(),
        timing={
            State.CLOSED: Rest("the tool is healthy"),
            State.OPEN: timedelta(minutes=5),
            State.HALF_OPEN: timedelta(minutes=5),
        },
        created_by={OPERATOR, SYSTEM},
        event_names=dict.fromkeys(("failure_threshold_exceeded", "failure"), "circuit_breaker_opened"),
    )

    volatile = (
        "failure_count", "success_count", "last_failure_at", "last_error", "probe_by", "probe_until",
    )  # fmt: skip
    state = StateField(State, initial=State.CLOSED)
    failure_threshold = models.PositiveSmallIntegerField(default=5, validators=[MinValueValidator(1)])
    cooldown_seconds = models.PositiveIntegerField(default=60)
    success_threshold = models.PositiveSmallIntegerField(default=1, validators=[MinValueValidator(1)])
    # The most tasks and gates that may use the tool at once; 0 means no limit.
    concurrency_limit = models.PositiveIntegerField(default=0, db_default=0)
    failure_count = models.PositiveIntegerField(default=0, editable=False)
    success_count = models.PositiveIntegerField(default=0, editable=False)
    last_failure_at = models.DateTimeField(null=True, editable=False)
    opened_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(default="", editable=False)
    # The task, gate or identity that may probe the half-open tool, and until when it has the only right to.
    probe_by = models.CharField(max_length=IDENTITY_LENGTH, default="", editable=False)
    probe_until = models.DateTimeField(null=True, editable=False)

    class Meta(Entity.Meta):
        constraints = (
            constraints.one_of("breaker", "state", State),
            constraints.set_exactly_in("breaker", "opened_at", {State.OPEN}),
            constraints.unset_in("breaker", "probe_until", {State.CLOSED, State.OPEN}),
        )
        indexes = (models.Index(fields=("state",), name="breaker_by_state"),)

    def cools_down_at(self) -> datetime:
        return (self.opened_at or self.state_entered_at) + timedelta(seconds=self.cooldown_seconds)

    def sync_state_fields(self, state: str, at: datetime, reason: str) -> None:
        self.opened_at = at if state == State.OPEN else None
        if state == State.CLOSED:
            self.failure_count = 0
        if state != State.HALF_OPEN:
            self.success_count = 0
            self.probe_by, self.probe_until = "", None

    def event_metadata(self, trigger: str) -> dict[str, Any]:
        return {"failure_count": self.failure_count, "last_error": self.last_error or None}

    @transition(
        "failure_threshold_exceeded",
        source=State.CLOSED,
        target=State.OPEN,
        by={SYSTEM},
        guards=[the_threshold_is_reached],
        severity=Severity.ERROR,
    )
    def open(self) -> None: ...

    @transition(
        "cooldown_expires",
        source=State.OPEN,
        target=State.HALF_OPEN,
        by={SYSTEM},
        guards=[the_cooldown_has_passed],
        severity=Severity.WARNING,
    )
    def half_open(self) -> None: ...

    @transition(
        "success",
        source=State.HALF_OPEN,
        target=State.CLOSED,
        by={SYSTEM},
        guards=[enough_probes_succeeded],
        severity=Severity.WARNING,
    )
    def close(self) -> None: ...

    @transition("failure", source=State.HALF_OPEN, target=State.OPEN, by={SYSTEM}, severity=Severity.ERROR)
    def open_again(self, error: str = "") -> None:
        self.last_error = error
        self.last_failure_at = self.facts.at
