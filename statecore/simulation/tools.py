"""The tools agents call, and their breakers.

For now the breaker of a tool is moved by hand; with `scheduling.breakers` a caller asks it for leave and reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import sleep
from typing import Any

from django.db.models import F

from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now
from ..machines.circuit_breaker import CircuitBreaker, State

TOOLS = ("compiler", "model", "registry")
THRESHOLD = 2
COOLDOWN_SECONDS = 1
PAUSE = 0.05


def use_a_tool(one: Any) -> Iterator[None]:
    """One spell of trouble with a tool: failures until it opens, a pause, probes until it closes."""
    one.name, one.model = f"{one.desk.names.label}-{one.rng.choice(TOOLS)}", CircuitBreaker
    with one.desk.in_hand(f"tool {one.name}") as free:
        if free:
            yield from _trouble(one)
        else:
            yield


def _trouble(one: Any) -> Iterator[None]:
    row = CircuitBreaker.objects.filter(pk=one.name)
    if not row.exists():
        one.create(CircuitBreaker, failure_threshold=THRESHOLD, cooldown_seconds=COOLDOWN_SECONDS)
    error = "it did not answer in time"
    while one.chance(0.8):
        yield
        row.update(failure_count=F("failure_count") + 1, last_failure_at=now(), last_error=error)
        if row.get().failure_count >= THRESHOLD:
            one.move("failure_threshold_exceeded", actor=THE_SYSTEM)
            break
    while (breaker := row.get()).state != State.CLOSED:
        if now() < breaker.cools_down_at() and breaker.state == State.OPEN:
            sleep(PAUSE)  # also after the end: a breaker is not left open
        elif breaker.state == State.OPEN:
            one.move("cooldown_expires", actor=THE_SYSTEM)
        elif one.fails and not one.desk.closed:
            one.move("failure", error=error)
        else:
            one.move("success")
        yield
