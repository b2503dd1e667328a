"""Circuit breakers: permits to call a tool, and reports of its calls. The state is a row that all processes share."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from django.conf import settings
from django.db.models import F, Q

from .. import transitions
from ..kernel.actors import THE_SYSTEM, Actor
from ..kernel.clock import now
from ..kernel.ids import is_valid_id
from ..kernel.refusals import BreakerOpen, DuplicateId, Invalid, Refusal
from ..kernel.validation import text_error
from ..machines.circuit_breaker import CircuitBreaker, State
from ..records import tool_lease
from ..storage.keyset_scan import next_by_entry
from ..transitions import rights
from ..transitions.outcome import counting_refusals
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction

FLOW = CircuitBreaker.flow
MAX_TRIES = 4  # other callers may change the breaker between two reads
BATCH = 500
ERROR_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission to call the tool. If it is the probe, its result decides whether other calls are permitted again."""

    tool_id: str
    is_probe: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {"allowed": True, "probe": self.is_probe}


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The breaker after a report.

    `counts` is False if the caller has no lease, if it was too late, or if another caller is probing the tool.
    """

    breaker: CircuitBreaker
    counts: bool

    def as_dict(self) -> dict[str, Any]:
        fields = {name: getattr(self.breaker, name) for name in ("state", "failure_count", "success_count")}
        return {"counted": self.counts, **fields}


def acquire(tool_id: str, *, actor: Actor, within: UnitOfWork | None = None) -> Permit:
    """Return a permit to call the tool, with a lease: only reports of lease holders count.

    Raises BreakerOpen while the tool cools down or while another caller probes it.
    """
    with counting_refusals(FLOW.entity_type):
        rights.require(actor, FLOW, "operate")
        for _ in range(MAX_TRIES):
            breaker = _get_or_create(tool_id, within)
            if breaker.state == State.CLOSED:
                tool_lease.renew(tool_id, actor.identity)
                return Permit(tool_id)
            _refuse_while_blocked(breaker)
            if breaker.state == State.OPEN:
                with suppress(Refusal):  # another caller half-opened it, or opened it again
                    transitions.transition(
                        CircuitBreaker, breaker.pk, "cooldown_expires", actor=THE_SYSTEM, within=within
                    )
            elif _take_probe(breaker, actor):
                return Permit(tool_id, is_probe=True)
        raise _build_refusal(breaker, 1)


def report(
    tool_id: str, *, success: bool, actor: Actor, error: str = "", within: UnitOfWork | None = None
) -> ReportResult:
    """Report a call. Consecutive failures open the breaker; the probe's result closes it or opens it again.

    One caller alone opens the breaker only while no other caller has a lease.
    """

    def count(work: UnitOfWork) -> bool:
        breaker: CircuitBreaker = work.lock(CircuitBreaker, tool_id)
        if breaker.state == State.OPEN:
            return False
        if breaker.state == State.CLOSED:
            return _count_success(breaker, actor) if success else _count_failure(work, breaker, error, actor)
        if not _may_decide(breaker, actor):
            return False
        return (
            _count_probe_success(work, breaker, actor)
            if success
            else _fire(work, breaker, "failure", actor, error=error)
        )

    with counting_refusals(FLOW.entity_type):
        rights.require(actor, FLOW, "operate")
        if complaint := text_error(error, ERROR_LIMIT):
            raise Invalid({"error": [complaint]})
        breaker = _get_or_create(tool_id, within)
        # The healthy case, by far the most frequent, locks nothing and writes nothing.
        if success and breaker.state == State.CLOSED and breaker.failure_count == 0:
            return ReportResult(breaker, counts=True)
        counts = run_in_transaction(count, within=within)
        return ReportResult(_get_or_create(tool_id, within), counts)


# Where the last sweep of this process stopped. The next one continues there, so that breakers with long cooldowns do
# not keep it from reaching the others.
_places: dict[str, Any] = {}


def half_open_due(limit: int = BATCH) -> int:
    """Half-open the breakers past their cooldown, and return their number."""
    at, is_open = now(), CircuitBreaker.objects.filter(state=State.OPEN)
    batch = CircuitBreaker.objects.filter(pk__in=next_by_entry(is_open, _places, State.OPEN, limit))
    due = [breaker.pk for breaker in batch if breaker.cools_down_at() <= at]
    items = transitions.transition_many(CircuitBreaker, due, "cooldown_expires", actor=THE_SYSTEM) if due else []
    return sum(item.refusal is None for item in items)


def _get_or_create(tool_id: str, within: UnitOfWork | None) -> CircuitBreaker:
    """Return the breaker of a tool; the first use creates it with the default thresholds."""
    if not is_valid_id(tool_id):
        raise Invalid({"tool": ["must be 1 to 64 of A-Z a-z 0-9 . _ : -"]})
    found: CircuitBreaker | None = CircuitBreaker.objects.filter(pk=tool_id).first()
    if found is None:
        with suppress(DuplicateId):  # a concurrent caller created it
            transitions.create(CircuitBreaker, id=tool_id, actor=THE_SYSTEM, reason="first use", within=within)
        found = CircuitBreaker.objects.get(pk=tool_id)
    return cast(CircuitBreaker, found)


def _refuse_while_blocked(breaker: CircuitBreaker) -> None:
    until = breaker.cools_down_at() if breaker.state == State.OPEN else breaker.probe_until
    if until is not None and (left := (until - now()).total_seconds()) > 0:
        raise _build_refusal(breaker, math.ceil(left))


def _build_refusal(breaker: CircuitBreaker, seconds: int) -> BreakerOpen:
    why = "is cooling down" if breaker.state == State.OPEN else "is being probed by another caller"
    facts = {"tool": breaker.pk, "state": breaker.state, "retry_after": seconds}
    return BreakerOpen(f"{breaker.pk} {why}: retry in {seconds} s", **facts)


def _take_probe(breaker: CircuitBreaker, actor: Actor) -> bool:
    """Make this caller the prober, unless another caller was faster; return whether it is.

    The lease limits how long others wait if the prober dies.
    """
    at = now()
    free = Q(probe_until=None) | Q(probe_until__lte=at)
    lease = timedelta(seconds=settings.STATECORE_PROBE_SECONDS)
    half_open = CircuitBreaker.objects.filter(free, pk=breaker.pk, state=State.HALF_OPEN)
    return bool(half_open.update(probe_by=actor.identity, probe_until=at + lease))


def _may_decide(breaker: CircuitBreaker, actor: Actor) -> bool:
    """Whether the report decides about a half-open breaker.

    The report of the prober does, even if its lease has ended. Those of other agents are about calls from before the
    breaker opened. An operator may report an observation while there is no prober.
    """
    return breaker.probe_by == (actor.identity if actor.holds or breaker.probe_by else "")


def _count_success(breaker: CircuitBreaker, actor: Actor) -> bool:
    if actor.holds and not tool_lease.select_live(breaker.pk).filter(holder=actor.identity).exists():
        return False
    CircuitBreaker.objects.filter(pk=breaker.pk).update(failure_count=0)
    tool_lease.clear_failures(breaker.pk)
    return True


def _count_failure(work: UnitOfWork, breaker: CircuitBreaker, error: str, actor: Actor) -> bool:
    if actor.holds and not tool_lease.count_failure(breaker.pk, actor.identity):
        return False
    row = CircuitBreaker.objects.filter(pk=breaker.pk)
    row.update(failure_count=F("failure_count") + 1, last_failure_at=now(), last_error=error)
    is_reached = breaker.failure_count + 1 >= breaker.failure_threshold
    if is_reached and not (actor.holds and tool_lease.is_alone_with_failures(breaker.pk, actor.identity)):
        tool_lease.clear_failures(breaker.pk)
        transitions.transition(
            CircuitBreaker,
            breaker.pk,
            "failure_threshold_exceeded",
            actor=THE_SYSTEM,
            reason=error[:500],
            metadata=_describe_reporter(actor),
            within=work,
        )
    return True


def _count_probe_success(work: UnitOfWork, breaker: CircuitBreaker, actor: Actor) -> bool:
    if breaker.success_count + 1 >= breaker.success_threshold:
        return _fire(work, breaker, "success", actor)
    row = CircuitBreaker.objects.filter(pk=breaker.pk)
    row.update(success_count=F("success_count") + 1, probe_by="", probe_until=None)
    return True


def _fire(work: UnitOfWork, breaker: CircuitBreaker, trigger: str, actor: Actor, **params: Any) -> bool:
    transitions.transition(
        CircuitBreaker,
        breaker.pk,
        trigger,
        actor=THE_SYSTEM,
        params=params,
        metadata=_describe_reporter(actor),
        within=work,
    )
    return True


def _describe_reporter(actor: Actor) -> dict[str, Any]:
    return {"reported_by": actor.name, "reporter": actor.identity or None}
