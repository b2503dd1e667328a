"""Attack: one agent opens the breaker of a tool for everybody by reporting failures (issue 15, attack 2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.machines.worlds import fixed_clock

pytestmark = pytest.mark.django_db

FAILURE = {"success": False, "error": "forged"}


@pytest.fixture(autouse=True)
def clock() -> Any:
    with fixed_clock() as traveller:
        yield traveller


def acquire(*callers: Caller) -> None:
    for caller in callers:
        assert expect_ok(caller.post("breakers/git/acquire/"))["allowed"]


def report(caller: Caller, times: int = 5) -> dict[str, Any]:
    for _ in range(times):
        reply = expect_ok(caller.post("breakers/git/report/", FAILURE))
    return dict(reply)


def test_one_agent_opens_a_breaker_for_everybody_by_five_reports() -> None:
    user, attacker = Caller("agent"), Caller("agent")
    acquire(user, attacker)
    assert report(attacker, times=20)["state"] == "CLOSED"
    acquire(user)


def test_an_agent_without_a_lease_reports_failures() -> None:
    user, attacker = Caller("agent"), Caller("agent")
    acquire(user)
    assert report(attacker) == {"counted": False, "state": "CLOSED", "failure_count": 0, "success_count": 0}


def test_two_agents_open_a_breaker_together() -> None:
    first, second = Caller("agent"), Caller("agent")
    acquire(first, second)
    assert report(first, times=4)["state"] == "CLOSED"
    assert report(second, times=1)["state"] == "OPEN"


def test_the_only_holder_of_a_lease_opens_the_breaker(clock: Any) -> None:
    only, former = Caller("agent"), Caller("agent")
    acquire(former)
    clock.shift(timedelta(seconds=901))
    acquire(only)
    assert report(only)["state"] == "OPEN"


def test_an_agent_hides_failures_without_a_lease() -> None:
    user, attacker = Caller("agent"), Caller("agent")
    acquire(user)
    report(user, times=4)
    assert expect_ok(attacker.post("breakers/git/report/", {"success": True}))["counted"] is False
    assert report(user, times=1)["state"] == "OPEN"


def test_a_success_of_a_user_clears_the_failures_of_all() -> None:
    first, second = Caller("agent"), Caller("agent")
    acquire(first, second)
    report(first, times=4)
    assert expect_ok(second.post("breakers/git/report/", {"success": True}))["failure_count"] == 0
    report(second, times=4)
    assert report(second, times=1)["state"] == "CLOSED"


@pytest.mark.parametrize("trigger", ["success", "failure"])
def test_an_agent_decides_about_a_half_open_breaker_beside_the_prober(clock: Any, trigger: str) -> None:
    prober, attacker = Caller("agent"), Caller("agent")
    acquire(prober)
    report(prober)
    clock.shift(timedelta(seconds=61))
    assert expect_ok(prober.post("breakers/git/acquire/"))["probe"]
    for caller in (prober, attacker):
        expect_refusal(caller.post("breakers/git/transitions/", {"trigger": trigger}), 403, "permission_denied")
    assert expect_ok(attacker.post("breakers/git/report/", {"success": True}))["counted"] is False
    assert expect_ok(prober.post("breakers/git/report/", {"success": True}))["state"] == "CLOSED"


def test_two_tokens_of_one_account_open_a_breaker_for_everybody() -> None:
    user, first = Caller("agent"), Caller("agent")
    second = Caller("agent", user=first.user)
    acquire(user, first, second)
    for caller in (first, second, first):
        assert report(caller)["state"] == "CLOSED"
    acquire(user)
    assert report(user, times=1)["state"] == "OPEN"


def test_one_account_with_all_leases_opens_the_breaker() -> None:
    first = Caller("agent")
    second = Caller("agent", user=first.user)
    acquire(first, second)
    assert report(first)["state"] == "OPEN"
