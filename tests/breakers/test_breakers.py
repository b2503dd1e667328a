"""A tool that keeps failing is left alone, and one caller at a time finds out whether it is well again."""

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
from tests.races.records import is_whole, path
from tests.support import world

pytestmark = pytest.mark.django_db
ANN, BEN = Actor.agent("ann"), Actor.agent("ben")


@pytest.fixture(autouse=True)
def clock():
    with fixed_clock() as traveller:
        yield traveller


def the(tool: str = "aider") -> Any:
    return is_whole(CircuitBreaker.objects.get(pk=tool))


def fail(times: int = 1, actor: Actor = ANN, error: str = "it crashed") -> None:
    for _ in range(times):
        breakers.report("aider", success=False, error=error, actor=actor)


def succeed(actor: Actor = ANN) -> breakers.Noted:
    return breakers.report("aider", success=True, actor=actor)


def opened(**fields: Any) -> Any:
    world.created("CircuitBreaker", id="aider", **fields)
    fail(fields.get("failure_threshold", 5))
    return the()


def refused(actor: Actor = ANN) -> BreakerOpen:
    with pytest.raises(BreakerOpen) as refusal:
        breakers.acquire("aider", actor=actor)
    return refusal.value


def test_a_tool_nobody_used_before_may_be_called() -> None:
    assert breakers.acquire("aider", actor=ANN).as_dict() == {"allowed": True, "probe": False}
    assert (the().state, the().failure_threshold, the().cooldown_seconds) == ("CLOSED", 5, 60)


def test_failures_in_a_row_open_it_and_the_record_says_why() -> None:
    fail(4)
    assert the().state == "CLOSED"
    fail(error="out of memory")
    breaker = the()
    assert (breaker.state, breaker.last_error, breaker.last_failure_at) == ("OPEN", "out of memory", now())
    event = world.last_event(breaker)
    assert (event["trigger"], event["actor"], event["severity"]) == ("failure_threshold_exceeded", "system", "error")
    assert event["metadata"] == {"failure_count": 5, "last_error": "out of memory", "reported_by": "ann"}


def test_a_success_in_between_starts_the_count_again() -> None:
    fail(4)
    assert succeed().as_dict() == {"counted": True, "state": "CLOSED", "failure_count": 0, "success_count": 0}
    fail(4)
    assert the().state == "CLOSED"


def test_a_success_of_a_healthy_tool_writes_nothing(django_assert_num_queries) -> None:
    succeed()
    with django_assert_num_queries(1):
        succeed()


def test_an_open_one_refuses_and_says_when_to_ask_again(clock) -> None:
    opened()
    clock.shift(timedelta(seconds=20.5))
    refusal = refused()
    assert (refusal.code, refusal.status, refusal.facts["retry_after"]) == ("breaker_open", 503, 40)
    assert refusal.detail == "aider is cooling down: ask again in 40 s"


def test_after_the_cooldown_one_caller_gets_the_probe(clock) -> None:
    opened()
    clock.shift(timedelta(seconds=60))
    assert breakers.acquire("aider", actor=ANN).is_probe
    assert the().state == "HALF_OPEN"
    refusal = refused(BEN)
    assert refusal.detail == "aider is being tried out: ask again in 300 s"


def test_a_prober_that_never_reports_shuts_nobody_out_for_ever(clock) -> None:
    opened()
    clock.shift(timedelta(seconds=60))
    breakers.acquire("aider", actor=ANN)
    clock.shift(timedelta(seconds=300))
    assert breakers.acquire("aider", actor=BEN).is_probe
    # Ann's fate says nothing any more.
    assert not breakers.report("aider", success=False, error="late", actor=ANN).counts
    assert the().state == "HALF_OPEN"


def test_a_probe_that_succeeds_closes_it(clock) -> None:
    opened()
    clock.shift(timedelta(seconds=60))
    breakers.acquire("aider", actor=ANN)
    assert succeed().counts
    breaker = the()
    assert (breaker.state, breaker.failure_count, breaker.probe_by, breaker.probe_until) == ("CLOSED", 0, "", None)
    assert world.last_event(breaker)["actor"] == "ann"
    assert not breakers.acquire("aider", actor=BEN).is_probe


def test_a_probe_that_fails_opens_it_again_and_the_cooldown_starts_anew(clock) -> None:
    opened()
    clock.shift(timedelta(seconds=60))
    breakers.acquire("aider", actor=ANN)
    fail(error="still broken")
    breaker = the()
    assert (breaker.state, breaker.last_error, breaker.opened_at) == ("OPEN", "still broken", now())
    assert refused(BEN).facts["retry_after"] == 60


def test_it_closes_after_as_many_probes_as_its_threshold_says(clock) -> None:
    opened(success_threshold=2)
    clock.shift(timedelta(seconds=60))
    breakers.acquire("aider", actor=ANN)
    assert succeed().as_dict() == {"counted": True, "state": "HALF_OPEN", "failure_count": 5, "success_count": 1}
    assert breakers.acquire("aider", actor=BEN).is_probe
    succeed(BEN)
    assert the().state == "CLOSED"


def test_a_report_from_before_it_opened_does_not_count(clock) -> None:
    opened()
    assert not succeed(BEN).counts
    clock.shift(timedelta(seconds=61))
    breakers.cool_down()
    assert not succeed(BEN).counts, "nobody has tried it out"
    fail(actor=BEN)
    assert the().state == "HALF_OPEN"
    breakers.acquire("aider", actor=ANN)
    assert not succeed(BEN).counts
    assert the().state == "HALF_OPEN"


def test_the_sweep_half_opens_what_has_cooled_down_and_nothing_else(clock) -> None:
    opened()
    for name in ("slow", "well"):
        world.created("CircuitBreaker", id=name, cooldown_seconds=3600, failure_threshold=1)
    breakers.report("slow", success=False, actor=ANN)
    clock.shift(timedelta(seconds=61))
    assert breakers.cool_down() == 1
    assert breakers.cool_down() == 0
    assert [the(name).state for name in ("aider", "slow", "well")] == ["HALF_OPEN", "OPEN", "CLOSED"]


def test_many_that_cool_down_for_long_hide_nobody_from_the_sweep(clock) -> None:
    world.created("CircuitBreaker", id="slow", cooldown_seconds=3600, failure_threshold=1)
    breakers.report("slow", success=False, actor=ANN)
    clock.shift(timedelta(seconds=1))
    opened()
    clock.shift(timedelta(seconds=61))
    assert [breakers.cool_down(limit=1) for _ in range(3)] == [0, 1, 0]


def test_a_reset_is_an_override() -> None:
    breaker = world.forced(opened(), "CLOSED")
    assert (breaker.failure_count, path(breaker)[-1]) == (0, ("manual_override", "CLOSED"))
    assert not breakers.acquire("aider", actor=ANN).is_probe


def test_an_operator_needs_the_permission_and_his_report_is_the_systems_move(clock) -> None:
    opened()
    clock.shift(timedelta(seconds=60))
    with pytest.raises(PermissionDenied):
        breakers.acquire("aider", actor=world.operator_with(name="bob"))
    ada = world.operator_with("operate_circuitbreaker", name="ada")
    assert breakers.acquire("aider", actor=ada).is_probe
    breakers.report("aider", success=True, actor=ada)
    event = world.last_event(the())
    assert (event["actor"], event["metadata"]["reported_by"]) == ("system", "ada")


@pytest.mark.parametrize("tool", ["", "a b", "a\0b", "x" * 65])
def test_a_tool_has_a_proper_id(tool: str) -> None:
    with pytest.raises(Invalid):
        breakers.acquire(tool, actor=ANN)


def test_an_error_is_text_that_can_be_kept() -> None:
    with pytest.raises(Invalid):
        breakers.report("aider", success=False, error="a\0b", actor=ANN)
