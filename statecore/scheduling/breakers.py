"""Circuit breakers: permits to call a tool, and reports of its calls. The state is a row that all processes share."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q

from .. import transitions
from ..kernel.actors import THE_SYSTEM, Actor
from ..kernel.clock import now
from ..kernel.ids import is_valid_id
from ..kernel.refusals import BreakerOpen, Invalid, Refusal
from ..kernel.validation import text_error
from ..machines.circuit_breaker import CircuitBreaker, State
from ..reactions import tool_reports
from ..reactions.tool_reports import Reporter
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

    One account alone opens the breaker only while no other account has a lease.
    """

    def count(work: UnitOfWork) -> bool:
        holder = actor.identity if actor.holds else ""
        reporter = Reporter(actor.name, holder, actor.identity, is_observer=not actor.holds)
        return tool_reports.count(work, tool_id, reporter, success=success, error=error)

    with counting_refusals(FLOW.entity_type):
        rights.require(actor, FLOW, "operate")
        if complaint := text_error(error, ERROR_LIMIT):
            raise Invalid({"error": [complaint]})
        breaker = _get_or_create(tool_id, within)
        if success and tool_reports.is_healthy(breaker):
            return ReportResult(breaker, counts=True)
        counts = run_in_transaction(count, within=within)
        return ReportResult(_get_or_create(tool_id, within), counts)


# Where the last sweep of this process stopped. The next one continues there, so that breakers with long cooldowns do
# not keep it from reaching the others.
_places: dict[str, Any] = {}


def half_open_due(limit: int = BATCH) -> int:
    """Half-open the breakers past their cooldown, and return their number; end the probes without a report."""
    CircuitBreaker.objects.filter(state=State.HALF_OPEN, probe_until__lte=now()).update(probe_until=None)
    at, is_open = now(), CircuitBreaker.objects.filter(state=State.OPEN)
    batch = CircuitBreaker.objects.filter(pk__in=next_by_entry(is_open, _places, State.OPEN, limit))
    due = [breaker.pk for breaker in batch if breaker.cools_down_at() <= at]
    items = transitions.transition_many(CircuitBreaker, due, "cooldown_expires", actor=THE_SYSTEM) if due else []
    return sum(item.refusal is None for item in items)


def _get_or_create(tool_id: str, within: UnitOfWork | None) -> CircuitBreaker:
    """Return the breaker of a tool; the first use creates it with the default thresholds."""
    if not is_valid_id(tool_id):
        raise Invalid({"tool": ["must be 1 to 64 of A-Z a-z 0-9 . _ : -"]})
    return tool_reports.get_or_create([tool_id], within)[tool_id]


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
