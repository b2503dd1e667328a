"""Breakers in use: may this tool be called now, and how did the call go. The row is shared by every process."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from django.conf import settings
from django.db.models import F, Q

from .. import door
from ..door import rights, rows
from ..door.perform import perform
from ..door.refused import counted
from ..kernel.actors import THE_SYSTEM, Actor, Kind
from ..kernel.clock import now
from ..kernel.plain import text_complaint
from ..kernel.refusals import BreakerOpen, DuplicateId, Invalid, Refusal
from ..kernel.strides import next_by_entry
from ..kernel.ulid import is_valid_id
from ..machines.circuit_breaker import CircuitBreaker, State

FLOW = CircuitBreaker.flow
ROUNDS = 4  # how often somebody else may change the breaker while one caller asks
BATCH = 500
ERROR_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Permit:
    """The tool may be called; a probe is the one call that decides whether the others may."""

    tool_id: str
    is_probe: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {"allowed": True, "probe": self.is_probe}


@dataclass(frozen=True, slots=True)
class Noted:
    """Where the breaker stands after a report; one that comes too late, or past the probe, does not count."""

    breaker: CircuitBreaker
    counts: bool

    def as_dict(self) -> dict[str, Any]:
        told = {name: getattr(self.breaker, name) for name in ("state", "failure_count", "success_count")}
        return {"counted": self.counts, **told}


def acquire(tool_id: str, *, actor: Actor) -> Permit:
    """Leave to call the tool; `BreakerOpen` where nobody may, or where somebody else is trying it out."""
    with counted(FLOW.entity_type):
        rights.require(actor, FLOW, "operate")
        for _ in range(ROUNDS):
            breaker = _known(tool_id)
            if breaker.state == State.CLOSED:
                return Permit(tool_id)
            _refuse_until(breaker, _shut_until(breaker))
            if breaker.state == State.OPEN:
                _half_open(breaker)
            elif _took_the_probe(breaker, actor):
                return Permit(tool_id, is_probe=True)
        raise _closed_to_you(breaker, 1)


def report(tool_id: str, *, success: bool, actor: Actor, error: str = "") -> Noted:
    """How a call went: failures in a row open the breaker, what the probe found closes it or opens it again."""

    def step() -> bool:
        breaker = cast(CircuitBreaker, rows.lock(CircuitBreaker, tool_id))
        if breaker.state == State.OPEN:
            return False
        if breaker.state == State.CLOSED:
            return _count_success(breaker) if success else _count_failure(breaker, error, actor)
        if not _may_decide(breaker, actor):
            return False
        return _probe_succeeded(breaker, actor) if success else _fire(breaker, "failure", actor, error=error)

    with counted(FLOW.entity_type):
        rights.require(actor, FLOW, "operate")
        if complaint := text_complaint(error, ERROR_LIMIT):
            raise Invalid({"error": [complaint]})
        breaker = _known(tool_id)
        # The healthy case, by far the most frequent, locks nothing and writes nothing.
        if success and breaker.state == State.CLOSED and breaker.failure_count == 0:
            return Noted(breaker, counts=True)
        counts = perform(step)
        return Noted(_known(tool_id), counts)


# Where this process stopped last time, so that many who cool down for long do not hide the others.
_places: dict[str, Any] = {}


def cool_down(limit: int = BATCH) -> int:
    """Half-open every breaker whose cooldown has passed; how many there were."""
    at, shut = now(), CircuitBreaker.objects.filter(state=State.OPEN)
    some = CircuitBreaker.objects.filter(pk__in=next_by_entry(shut, _places, State.OPEN, limit))
    due = [breaker.pk for breaker in some if breaker.cools_down_at() <= at]
    items = door.transition_many(CircuitBreaker, due, "cooldown_expires", actor=THE_SYSTEM) if due else []
    return sum(item.refusal is None for item in items)


def _known(tool_id: str) -> CircuitBreaker:
    """The breaker of a tool; one that nobody has used before gets one with the usual thresholds."""
    if not is_valid_id(tool_id):
        raise Invalid({"tool": ["must be 1 to 64 of A-Z a-z 0-9 . _ : -"]})
    found: CircuitBreaker | None = CircuitBreaker.objects.filter(pk=tool_id).first()
    if found is None:
        with suppress(DuplicateId):  # somebody else was first
            door.create(CircuitBreaker, id=tool_id, actor=THE_SYSTEM, reason="first use")
        found = CircuitBreaker.objects.get(pk=tool_id)
    return cast(CircuitBreaker, found)


def _shut_until(breaker: CircuitBreaker) -> datetime | None:
    return breaker.cools_down_at() if breaker.state == State.OPEN else breaker.probe_until


def _refuse_until(breaker: CircuitBreaker, until: datetime | None) -> None:
    if until is not None and (left := (until - now()).total_seconds()) > 0:
        raise _closed_to_you(breaker, math.ceil(left))


def _closed_to_you(breaker: CircuitBreaker, seconds: int) -> BreakerOpen:
    why = "is cooling down" if breaker.state == State.OPEN else "is being tried out"
    standing = {"tool": breaker.pk, "state": breaker.state, "retry_after": seconds}
    return BreakerOpen(f"{breaker.pk} {why}: ask again in {seconds} s", **standing)


def _half_open(breaker: CircuitBreaker) -> None:
    with suppress(Refusal):  # somebody else did, or opened it anew
        door.transition(CircuitBreaker, breaker.pk, "cooldown_expires", actor=THE_SYSTEM)


def _took_the_probe(breaker: CircuitBreaker, actor: Actor) -> bool:
    """One statement decides who of all callers it is; a prober that dies shuts the others out for a while only."""
    at = now()
    free = Q(probe_until=None) | Q(probe_until__lte=at)
    lease = timedelta(seconds=settings.STATECORE_PROBE_SECONDS)
    half_open = CircuitBreaker.objects.filter(free, pk=breaker.pk, state=State.HALF_OPEN)
    return bool(half_open.update(probe_by=actor.name, probe_until=at + lease))


def _may_decide(breaker: CircuitBreaker, actor: Actor) -> bool:
    """Whoever has the probe, overdue or not: any other agent tells of a call it began before the breaker opened.

    An operator may say what he saw as long as nobody is trying it out.
    """
    return breaker.probe_by == (actor.name if actor.kind is Kind.AGENT or breaker.probe_by else "")


def _count_success(breaker: CircuitBreaker) -> bool:
    CircuitBreaker.objects.filter(pk=breaker.pk).update(failure_count=0)
    return True


def _count_failure(breaker: CircuitBreaker, error: str, actor: Actor) -> bool:
    mine = CircuitBreaker.objects.filter(pk=breaker.pk)
    mine.update(failure_count=F("failure_count") + 1, last_failure_at=now(), last_error=error)
    if breaker.failure_count + 1 >= breaker.failure_threshold:
        told = {"reported_by": actor.name}
        door.transition(
            CircuitBreaker,
            breaker.pk,
            "failure_threshold_exceeded",
            actor=THE_SYSTEM,
            reason=error[:500],
            metadata=told,
        )
    return True


def _probe_succeeded(breaker: CircuitBreaker, actor: Actor) -> bool:
    if breaker.success_count + 1 >= breaker.success_threshold:
        return _fire(breaker, "success", actor)
    mine = CircuitBreaker.objects.filter(pk=breaker.pk)
    mine.update(success_count=F("success_count") + 1, probe_by="", probe_until=None)
    return True


def _fire(breaker: CircuitBreaker, trigger: str, actor: Actor, **params: Any) -> bool:
    """An operator may report what he saw; the move itself is the system's then."""
    mover = actor if actor.kind is Kind.AGENT else THE_SYSTEM
    door.transition(
        CircuitBreaker, breaker.pk, trigger, actor=mover, params=params, metadata={"reported_by": actor.name}
    )
    return True
