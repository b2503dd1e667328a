"""What an open breaker waits for."""

from __future__ import annotations

from datetime import datetime

from ...machines.circuit_breaker import CircuitBreaker, State
from .. import words
from .wait import Cause


def cause(breaker: CircuitBreaker, at: datetime) -> Cause:
    if breaker.state == State.OPEN:
        due = words.until(breaker.cools_down_at(), at)
        return words.standing(breaker, at, f"{breaker.failure_count} failures in a row; the next probe {due}")
    if breaker.state == State.HALF_OPEN:
        trying = f"{breaker.probe_by} is trying it out" if breaker.probe_by else "nobody has tried it out"
        return words.standing(breaker, at, trying)
    return ""
