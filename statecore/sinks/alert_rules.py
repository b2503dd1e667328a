"""The nine rules: three follow single events, six look at counts and at the clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q, Sum

from ..kernel import registry
from ..kernel.clock import told
from ..kernel.flow import Flow
from ..kernel.moves import Severity
from ..machines.circuit_breaker import CircuitBreaker
from ..machines.circuit_breaker import State as Breaker
from ..machines.patch_ledger import PatchLedger
from ..machines.patch_ledger import State as Patch
from ..machines.task import State as TaskState
from ..machines.task import Task
from ..machines.worker import State as WorkerState
from ..machines.worker import Worker
from ..records import StateCount, TransitionRate
from ..stuck import scan

SHOWN = 20  # of what is stuck; who has more needs no longer list


@dataclass(frozen=True, slots=True)
class Broken:
    """What a rule found: for which thing, in a sentence, with the numbers."""

    key: str
    detail: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EntryRule:
    """Broken when an entity enters a state; over when it enters one of `ends_in` or, without one, after a while."""

    name: str
    severity: Severity
    flow: Flow
    state: str
    sentence: str
    means: str
    ends_in: Collection[str] = ()
    minutes: str = ""  # the limit that says how long such an alert stays


@dataclass(frozen=True, slots=True)
class CountRule:
    """Broken as long as the check finds something."""

    name: str
    severity: Severity
    means: str
    check: Callable[[datetime], Iterator[Broken]]


def limit(name: str) -> float:
    return float(settings.STATECORE_ALERTS[name])


def _within(at: datetime, minutes: str) -> Any:
    """The minutes of a window, the one that is not over included: never less than the whole window."""
    start = (at - timedelta(minutes=limit(minutes))).replace(second=0, microsecond=0)
    return TransitionRate.objects.filter(minute__gte=start)


def too_many_failures(at: datetime) -> Iterator[Broken]:
    moved = _within(at, "failure_minutes").exclude(from_state="").aggregate(all=Sum("count"), failed=Sum("failures"))
    yield from _share("failures", moved["failed"] or 0, moved["all"] or 0, "failure", "transitions failed")


def too_many_retries(at: datetime) -> Iterator[Broken]:
    """Of the tasks that stopped running."""
    stopped = _within(at, "retry_minutes").filter(entity_type=Task.flow.entity_type, from_state=TaskState.RUNNING)
    sums = stopped.aggregate(all=Sum("count"), again=Sum("count", filter=Q(to_state=TaskState.RETRYING)))
    yield from _share("retries", sums["again"] or 0, sums["all"] or 0, "retry", "task runs are to be retried")


def _share(key: str, some: int, of_all: int, kind: str, sentence: str) -> Iterator[Broken]:
    if of_all >= limit(f"{kind}_least") and some * 100 > limit(f"{kind}_percent") * of_all:
        minutes = limit(f"{kind}_minutes")
        detail = f"{some} of {of_all} {sentence} in {minutes:.0f} minutes ({some * 100 / of_all:.0f} %)"
        yield Broken(key, detail, {"count": some, "of": of_all, "minutes": minutes})


def too_many_overrides(at: datetime) -> Iterator[Broken]:
    count = _within(at, "override_minutes").aggregate(sum=Sum("overrides"))["sum"] or 0
    if count > limit("override_count"):
        yield Broken("overrides", f"{count} overrides in {limit('override_minutes'):.0f} minutes", {"count": count})


def too_many_quarantined(at: datetime) -> Iterator[Broken]:
    entered = _within(at, "quarantine_minutes").filter(
        entity_type=PatchLedger.flow.entity_type, to_state=Patch.QUARANTINED
    )
    count = entered.aggregate(sum=Sum("count"))["sum"] or 0
    if count > limit("quarantine_count"):
        detail = f"{count} patches quarantined in {limit('quarantine_minutes'):.0f} minutes"
        yield Broken("quarantined", detail, {"count": count})


def too_many_blocked(at: datetime) -> Iterator[Broken]:
    blocked = StateCount.objects.filter(entity_type=Task.flow.entity_type, state=TaskState.BLOCKED)
    count = blocked.values_list("count", flat=True).first() or 0
    if count > limit("blocked_count"):
        yield Broken("blocked", f"{count} tasks are blocked", {"count": count})


def stuck(at: datetime) -> Iterator[Broken]:
    """One alert for each state of a machine in which something stays far longer than it should."""
    for flow in registry.flows():
        for state in flow.timing:
            if found := _stuck(flow, state, at):
                yield _told(flow, state, found)


def _told(flow: Flow, state: str, found: list[tuple[str, datetime]]) -> Broken:
    (oldest, since), count = found[0], len(found)
    many = f"{count} or more" if count == SHOWN else str(count)
    what = f"{flow.entity_type} {oldest} is" if count == 1 else f"{many} of {flow.collection} are"
    detail = f"{what} {state} for far longer than expected, since {told(since)}"
    return Broken(f"{flow.entity_type}.{state}", detail, {"count": count, "ids": [pk for pk, _since in found]})


def _stuck(flow: Flow, state: str, at: datetime) -> list[tuple[str, datetime]]:
    late = scan.overdue(flow, state, at, SHOWN, beyond=limit("stuck_factor"))
    return [(entity.pk, scan.clock_of(entity)) for entity in late]


ENTRY_RULES = (
    # Half open is not over: a breaker that goes back and forth is one alert.
    EntryRule(
        "breaker_open", Severity.CRITICAL, CircuitBreaker.flow, Breaker.OPEN, "circuit breaker {} is open",
        "a circuit breaker is open: its tool failed too often and is not called", ends_in={Breaker.CLOSED},
    ),
    EntryRule(
        "rollback", Severity.CRITICAL, PatchLedger.flow, Patch.ROLLED_BACK, "patch {} was rolled back",
        "a committed patch was rolled back within the last {rollback_minutes} minutes", minutes="rollback_minutes",
    ),
    EntryRule(
        "worker_unresponsive", Severity.WARNING, Worker.flow, WorkerState.UNRESPONSIVE, "worker {} does not respond",
        "a worker that holds tasks has missed its heartbeats", ends_in=set(WorkerState) - {WorkerState.UNRESPONSIVE},
    ),
)  # fmt: skip

COUNT_RULES = (
    CountRule(
        "failure_rate", Severity.CRITICAL,
        "more than {failure_percent} % of the transitions of {failure_minutes} minutes were failures, of at least "
        "{failure_least}", too_many_failures,
    ),
    CountRule(
        "override_spike", Severity.CRITICAL,
        "more than {override_count} states were forced within {override_minutes} minutes", too_many_overrides,
    ),
    CountRule(
        "stuck", Severity.CRITICAL, "something has been in its state for more than {stuck_factor} times its deadline",
        stuck,
    ),
    CountRule(
        "retry_rate", Severity.WARNING,
        "more than {retry_percent} % of the task runs that ended within {retry_minutes} minutes are to be retried, of "
        "at least {retry_least}", too_many_retries,
    ),
    CountRule(
        "quarantined_patches", Severity.WARNING,
        "more than {quarantine_count} patches were quarantined within {quarantine_minutes} minutes",
        too_many_quarantined,
    ),
    CountRule("blocked_tasks", Severity.WARNING, "more than {blocked_count} tasks are blocked", too_many_blocked),
)  # fmt: skip
