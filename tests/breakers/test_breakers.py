"""Circuit breakers: a tool that keeps failing is refused, and one caller at a time probes whether it has recovered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from statecore.kernel.actors import Actor
from statecore.kernel.clock import now
from statecore.kernel.refusals import BreakerOpen, Invalid, PermissionDenied
from statecore.machines.circuit_breaker import CircuitBreaker
from statecore.scheduling import breakers
from tests.machines.worlds import fixed_clock
from tests.races.records import assert_consistent, path
from tests.support import world

pytestmark = pytest.mark.django_db
ANN, BEN = Actor.agent("ann"), Actor.agent("ben")


@pytest.fixture(autouse=True)
def clock():
    with fixed_clock() as traveller:
        yield traveller


def stored_breaker(tool: str = "aider") -> Any:
    return assert_consistent(CircuitBreaker.objects.get(pk=tool))


def acquire_if_closed(actor: Actor, tool: str = "aider") -> None:
    """Acquires the tool, as a caller does before it reports; not while it is open, where this would take the probe."""
    if not CircuitBreaker.objects.filter(pk=tool).exclude(state="CLOSED").exists():
        breakers.acquire(tool, actor=actor)


def fail(times: int = 1, actor: Actor = ANN, error: str = "it crashed", tool: str = "aider") -> None:
    for _ in range(times):
        acquire_if_closed(actor, tool)
        breakers.report(tool, success=False, error=error, actor=actor)


def succeed(actor: Actor = ANN) -> breakers.ReportResult:
    return breakers.report("aider", success=True, actor=actor)


def open_breaker(**fields: Any) -> Any:
    world.created("CircuitBreaker", id="aider", **fields)
    fail(fields.get("failure_threshold", 5))
    return stored_breaker()


def expect_breaker_open(actor: Actor = ANN) -> BreakerOpen:
    with pytest.raises(BreakerOpen) as refusal:
        breakers.acquire("aider", actor=actor)
    return refusal.value


def test_a_tool_without_a_breaker_may_be_called() -> None:
    assert breakers.acquire("aider", actor=ANN).as_dict() == {"allowed": True, "probe": False}
    assert (stored_breaker().state, stored_breaker().failure_threshold, stored_breaker().cooldown_seconds) == (
        "CLOSED",
        5,
        60,
    )


def test_consecutive_failures_open_the_breaker_and_record_the_error() -> None:
    fail(4)
    assert stored_breaker().state == "CLOSED"
    fail(error="out of memory")
    breaker = stored_breaker()
    assert (breaker.state, breaker.last_error, breaker.last_failure_at) == ("OPEN", "out of memory", now())
    event = world.last_event(breaker)
    assert (event["trigger"], event["actor"], event["severity"]) == ("failure_threshold_exceeded", "system", "error")
    assert event["metadata"] == {
        "failure_count": 5,
        "last_error": "out of memory",
        "reported_by": "ann",
        "reporter": "agent:ann",
    }


def test_a_success_resets_the_failure_count() -> None:
    fail(4)
    assert succeed().as_dict() == {"counted": True, "state": "CLOSED", "failure_count": 0, "success_count": 0}
    fail(4)
    assert stored_breaker().state == "CLOSED"


def test_a_success_of_a_healthy_tool_writes_nothing(django_assert_num_queries) -> None:
    succeed()
    with django_assert_num_queries(1):
        succeed()


def test_an_open_breaker_refuses_with_a_retry_time(clock) -> None:
    open_breaker()
    clock.shift(timedelta(seconds=20.5))
    refusal = expect_breaker_open()
    assert (refusal.code, refusal.status, refusal.facts["retry_after"]) == ("breaker_open", 503, 40)
    assert refusal.detail == "aider is cooling down: retry in 40 s"


def test_after_the_cooldown_one_caller_gets_the_probe(clock) -> None:
    open_breaker()
    clock.shift(timedelta(seconds=60))
    assert breakers.acquire("aider", actor=ANN).is_probe
    assert stored_breaker().state == "HALF_OPEN"
    refusal = expect_breaker_open(BEN)
    assert refusal.detail == "aider is being probed by another caller: retry in 300 s"


def test_a_probe_without_a_report_expires(clock) -> None:
    open_breaker()
    clock.shift(timedelta(seconds=60))
    breakers.acquire("aider", actor=ANN)
    clock.shift(timedelta(seconds=300))
    assert breakers.acquire("aider", actor=BEN).is_probe
    # Ann's late report no longer counts.
    assert not breakers.report("aider", success=False, error="late", actor=ANN).counts
    assert stored_breaker().state == "HALF_OPEN"


def test_a_successful_probe_closes_the_breaker(clock) -> None:
    open_breaker()
    clock.shift(timedelta(seconds=60))
    breakers.acquire("aider", actor=ANN)
    assert succeed().counts
    breaker = stored_breaker()
    assert (breaker.state, breaker.failure_count, breaker.probe_by, breaker.probe_until) == ("CLOSED", 0, "", None)
    event = world.last_event(breaker)
    assert (event["actor"], event["metadata"]["reporter"]) == ("system", "agent:ann")
    assert not breakers.acquire("aider", actor=BEN).is_probe


def test_a_failed_probe_reopens_the_breaker_and_restarts_the_cooldown(clock) -> None:
    open_breaker()
    clock.shift(timedelta(seconds=60))
    breakers.acquire("aider", actor=ANN)
    fail(error="still broken")
    breaker = stored_breaker()
    assert (breaker.state, breaker.last_error, breaker.opened_at) == ("OPEN", "still broken", now())
    assert expect_breaker_open(BEN).facts["retry_after"] == 60


def test_a_breaker_closes_after_success_threshold_probes(clock) -> None:
    open_breaker(success_threshold=2)
    clock.shift(timedelta(seconds=60))
    breakers.acquire("aider", actor=ANN)
    assert succeed().as_dict() == {"counted": True, "state": "HALF_OPEN", "failure_count": 5, "success_count": 1}
    assert breakers.acquire("aider", actor=BEN).is_probe
    succeed(BEN)
    assert stored_breaker().state == "CLOSED"


def test_a_report_from_before_it_opened_does_not_count(clock) -> None:
    open_breaker()
    assert not succeed(BEN).counts
    clock.shift(timedelta(seconds=61))
    breakers.half_open_due()
    assert not succeed(BEN).counts, "nobody has tried it out"
    fail(actor=BEN)
    assert stored_breaker().state == "HALF_OPEN"
    breakers.acquire("aider", actor=ANN)
    assert not succeed(BEN).counts
    assert stored_breaker().state == "HALF_OPEN"


def test_the_sweep_half_opens_what_has_cooled_down_and_nothing_else(clock) -> None:
    open_breaker()
    for name in ("slow", "well"):
        world.created("CircuitBreaker", id=name, cooldown_seconds=3600, failure_threshold=1)
    fail(tool="slow")
    clock.shift(timedelta(seconds=61))
    assert breakers.half_open_due() == 1
    assert breakers.half_open_due() == 0
    assert [stored_breaker(name).state for name in ("aider", "slow", "well")] == ["HALF_OPEN", "OPEN", "CLOSED"]


def test_breakers_with_a_long_cooldown_do_not_hide_others_from_the_sweep(clock) -> None:
    world.created("CircuitBreaker", id="slow", cooldown_seconds=3600, failure_threshold=1)
    fail(tool="slow")
    clock.shift(timedelta(seconds=1))
    open_breaker()
    clock.shift(timedelta(seconds=61))
    assert [breakers.half_open_due(limit=1) for _ in range(3)] == [0, 1, 0]


def test_a_reset_is_an_override() -> None:
    breaker = world.forced(open_breaker(), "CLOSED")
    assert (breaker.failure_count, path(breaker)[-1]) == (0, ("manual_override", "CLOSED"))
    assert not breakers.acquire("aider", actor=ANN).is_probe


def test_an_operators_report_needs_the_permission_and_is_recorded_as_the_system(clock) -> None:
    open_breaker()
    clock.shift(timedelta(seconds=60))
    with pytest.raises(PermissionDenied):
        breakers.acquire("aider", actor=world.operator_with(name="bob"))
    ada = world.operator_with("operate_circuitbreaker", name="ada")
    assert breakers.acquire("aider", actor=ada).is_probe
    breakers.report("aider", success=True, actor=ada)
    event = world.last_event(stored_breaker())
    assert (event["actor"], event["metadata"]["reported_by"]) == ("system", "ada")


@pytest.mark.parametrize("tool", ["", "a b", "a\0b", "x" * 65])
def test_an_invalid_tool_id_is_refused(tool: str) -> None:
    with pytest.raises(Invalid):
        breakers.acquire(tool, actor=ANN)


def test_an_error_that_cannot_be_stored_is_refused() -> None:
    with pytest.raises(Invalid):
        breakers.report("aider", success=False, error="a\0b", actor=ANN)
