"""Reports to circuit breakers: they count failures, open the breaker, and decide the probe of a half-open one."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from django.db.models import F

from .. import transitions
from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now
from ..kernel.refusals import DuplicateId
from ..machines.circuit_breaker import CircuitBreaker, State
from ..records import tool_lease
from ..transitions.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Reporter:
    """The source of a report.

    `holder` is the identity whose lease counts, empty for operators and the system. `probe` is the value of `probe_by`
    with which the report decides; an observer also decides while no probe is out.
    """

    name: str
    holder: str
    probe: str
    is_observer: bool = False

    def metadata(self) -> dict[str, Any]:
        return {"reported_by": self.name, "reporter": self.holder or None}


def get_or_create(tool_ids: Collection[str], within: UnitOfWork | None) -> dict[str, CircuitBreaker]:
    """Return the breakers of the tools; the first use creates one with the default thresholds."""
    found: dict[str, Any] = CircuitBreaker.objects.in_bulk(tool_ids)
    for tool_id in sorted(set(tool_ids) - found.keys()):
        with suppress(DuplicateId):  # a concurrent caller created it
            transitions.create(CircuitBreaker, id=tool_id, actor=THE_SYSTEM, reason="first use", within=within)
        found[tool_id] = CircuitBreaker.objects.get(pk=tool_id)
    return found


def is_healthy(breaker: CircuitBreaker) -> bool:
    """Whether a success changes nothing: by far the most frequent case, which locks and writes nothing."""
    return breaker.state == State.CLOSED and breaker.failure_count == 0


def count(work: UnitOfWork, tool_id: str, reporter: Reporter, *, success: bool, error: str) -> bool:
    """Count a report and return whether it counts; False if it is too late or another probe decides."""
    breaker = cast("CircuitBreaker", work.lock(CircuitBreaker, tool_id))
    if breaker.state == State.OPEN:
        return False
    if breaker.state == State.CLOSED:
        return _count_success(breaker, reporter) if success else _count_failure(work, breaker, error, reporter)
    if not _may_decide(breaker, reporter):
        return False
    if success:
        return _count_probe_success(work, breaker, reporter)
    return _fire(work, breaker, "failure", reporter, params={"error": error})


def release_probe(tool_id: str, probe: str) -> None:
    """Let another caller probe the tool, because this probe ended without a result."""
    CircuitBreaker.objects.filter(pk=tool_id, state=State.HALF_OPEN, probe_by=probe).update(
        probe_by="", probe_until=None
    )


def _may_decide(breaker: CircuitBreaker, reporter: Reporter) -> bool:
    """Whether the report decides about a half-open breaker.

    The report of the prober does, even if its lease has ended. Those of other agents are about calls from before the
    breaker opened. An operator may report an observation while there is no prober.
    """
    return breaker.probe_by == reporter.probe or (reporter.is_observer and not breaker.probe_by)


def _count_success(breaker: CircuitBreaker, reporter: Reporter) -> bool:
    if reporter.holder and not tool_lease.select_live(breaker.pk).filter(holder=reporter.holder).exists():
        return False
    CircuitBreaker.objects.filter(pk=breaker.pk).update(failure_count=0)
    tool_lease.clear_failures(breaker.pk)
    return True


def _count_failure(work: UnitOfWork, breaker: CircuitBreaker, error: str, reporter: Reporter) -> bool:
    if reporter.holder and not tool_lease.count_failure(breaker.pk, reporter.holder):
        return False
    row = CircuitBreaker.objects.filter(pk=breaker.pk)
    row.update(failure_count=F("failure_count") + 1, last_failure_at=now(), last_error=error)
    is_reached = breaker.failure_count + 1 >= breaker.failure_threshold
    if is_reached and not (reporter.holder and tool_lease.is_alone_with_failures(breaker.pk, reporter.holder)):
        tool_lease.clear_failures(breaker.pk)
        _fire(work, breaker, "failure_threshold_exceeded", reporter, reason=error[:500])
    return True


def _count_probe_success(work: UnitOfWork, breaker: CircuitBreaker, reporter: Reporter) -> bool:
    if breaker.success_count + 1 >= breaker.success_threshold:
        return _fire(work, breaker, "success", reporter)
    row = CircuitBreaker.objects.filter(pk=breaker.pk)
    row.update(success_count=F("success_count") + 1, probe_by="", probe_until=None)
    return True


def _fire(work: UnitOfWork, breaker: CircuitBreaker, trigger: str, reporter: Reporter, **given: Any) -> bool:
    transitions.transition(
        CircuitBreaker, breaker.pk, trigger, actor=THE_SYSTEM, metadata=reporter.metadata(), within=work, **given
    )
    return True
