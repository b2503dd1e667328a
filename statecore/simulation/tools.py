"""The tools agents call, each behind its breaker."""

from __future__ import annotations

from collections.abc import Iterator
from time import sleep
from typing import Any

from ..machines.circuit_breaker import CircuitBreaker, State
from ..scheduling import breakers

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
    while row.get().state == State.CLOSED and one.chance(0.8):
        yield
        _call(one, succeeds=False)
    while row.get().state != State.CLOSED:  # also after the end: a breaker is not left open
        _call(one, succeeds=one.desk.closed or not one.fails)
        yield


def _call(one: Any, *, succeeds: bool) -> None:
    """Ask for leave, call, report; where nobody may call, wait a little."""
    if one.desk.ask(breakers.acquire, one.name, actor=one.actor) is None:
        sleep(PAUSE)
        return
    error = "" if succeeds else "it did not answer in time"
    one.desk.ask(breakers.report, one.name, success=succeeds, error=error, actor=one.actor)
