"""Repeated heartbeats take one statement, with the same checks as the first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import structlog
import time_machine
from django.contrib.auth.models import Group, Permission, User

from statecore.kernel.clock import now
from statecore.machines.worker import Worker
from statecore.records import token as tokens
from statecore.records.token import Token
from tests.api.callers import Caller, expect_ok, expect_refusal, member
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def clock() -> Any:
    with time_machine.travel("2026-01-01T00:00:20Z", tick=False) as moved:
        yield moved


@pytest.fixture
def agent(clock: Any) -> Caller:
    """A client with the agent scope whose user is an operator, not a superuser."""
    return Caller(user=member("owner", "operator"), name="agent-7")


@pytest.fixture
def place(agent: Caller) -> str:
    """Returns the heartbeat path of a worker that has sent one heartbeat."""
    worker = expect_ok(agent.post("workers/", {}), 201)["id"]
    expect_ok(agent.post(f"workers/{worker}/heartbeat/"))
    return f"workers/{worker}/heartbeat/"


def heartbeat_time(place: str) -> Any:
    return Worker.objects.get(pk=place.split("/")[1]).last_heartbeat


def test_a_repeated_heartbeat_is_one_statement(
    agent: Caller, place: str, clock: Any, django_assert_num_queries: Any
) -> None:
    clock.shift(10)
    with django_assert_num_queries(1):
        assert expect_ok(agent.post(place)) == {"state": "idle", "commands": []}
    assert heartbeat_time(place) == now()


def test_a_heartbeat_may_list_the_held_tasks(agent: Caller, place: str, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        answer = expect_ok(agent.post(place, {"holds": [{"task": "t-1", "attempt": 1}]}))
    assert answer["commands"] == [{"cancel": "t-1", "attempt": 1}]


def _revoke(agent: Caller) -> None:
    tokens.revoke(agent.token)


def _expire(agent: Caller) -> None:
    Token.objects.update(expires_at=now())


def _dismiss(agent: Caller) -> None:
    User.objects.update(is_active=False)


@pytest.mark.parametrize("end", [_revoke, _expire, _dismiss])
def test_an_invalidated_token_is_refused_immediately(
    agent: Caller, place: str, clock: Any, end: Callable[[Caller], None]
) -> None:
    before = heartbeat_time(place)
    clock.shift(1)
    end(agent)
    expect_refusal(agent.post(place), 401, "not_authenticated")
    expect_refusal(agent.post(place, {"holds": "nonsense"}), 401, "not_authenticated")
    assert heartbeat_time(place) == before


def test_an_owner_who_lost_the_right_takes_it_from_the_token(agent: Caller, place: str, clock: Any) -> None:
    before = heartbeat_time(place)
    clock.shift(1)
    agent.user.groups.clear()
    answer = expect_refusal(agent.post(place), 403, "permission_denied")
    assert answer["required"] == "statecore.operate_worker"
    assert heartbeat_time(place) == before
    agent.user.user_permissions.set(Permission.objects.filter(codename="operate_worker"))
    expect_ok(agent.post(place))
    assert heartbeat_time(place) == now()


def test_a_right_to_see_is_no_right_to_operate(agent: Caller, place: str) -> None:
    agent.user.groups.set(Group.objects.filter(name="viewer"))
    expect_refusal(agent.post(place), 403, "permission_denied")


def test_a_heartbeat_for_another_agents_worker_is_refused(agent: Caller, place: str) -> None:
    stranger = Caller(name="agent-8")
    expect_refusal(stranger.post(place), 403, "not_the_holder")
    own = expect_ok(stranger.post("workers/", {}), 201)["id"]
    expect_ok(stranger.post(f"workers/{own}/heartbeat/"))
    expect_refusal(stranger.post(place), 403, "not_the_holder")
    expect_refusal(stranger.post("workers/nobody/heartbeat/"), 404, "not_found")


def test_a_heartbeat_is_refused_in_read_only_mode(agent: Caller, place: str, clock: Any, settings: Any) -> None:
    before = heartbeat_time(place)
    clock.shift(1)
    settings.STATECORE_READ_ONLY_FOR_PROGRAMS = True
    expect_refusal(agent.post(place), 403, "permission_denied")
    assert heartbeat_time(place) == before


@pytest.mark.parametrize("body", [{}, {"request_id": "again"}, {"holds": "nonsense"}])
def test_each_one_counts_once(agent: Caller, place: str, clock: Any, settings: Any, body: dict[str, Any]) -> None:
    """On the fast path and on the normal one."""
    settings.STATECORE_CALLS_PER_MINUTE = 3
    clock.shift(40)
    codes = [agent.post(place, body).status_code for _ in range(4)]
    assert codes == [codes[0]] * 3 + [429]


def test_a_throttled_heartbeat_is_refused(agent: Caller, place: str, clock: Any, settings: Any) -> None:
    settings.STATECORE_CALLS_PER_MINUTE = 1
    clock.shift(timedelta(days=3, seconds=40))  # to a minute in which no other test has made calls
    expect_ok(agent.post(place))
    clock.shift(1)
    assert expect_refusal(agent.post(place), 429, "throttled")["retry_after"] == 59
    assert heartbeat_time(place) == now() - timedelta(seconds=1)


def test_a_heartbeat_with_a_key_is_answered_from_its_record(agent: Caller, place: str, clock: Any) -> None:
    expect_ok(agent.post(place, **{"Idempotency-Key": "one"}))
    before = heartbeat_time(place)
    clock.shift(1)
    assert agent.post(place, **{"Idempotency-Key": "one"})["Idempotent-Replayed"] == "true"
    assert heartbeat_time(place) == before


def test_the_body_of_a_heartbeat_is_validated(agent: Caller, place: str) -> None:
    assert "nonsense" in expect_refusal(agent.post(place, {"nonsense": 1}), 400, "invalid")["errors"]


def test_a_heartbeat_recovers_an_unresponsive_worker(agent: Caller, place: str, clock: Any) -> None:
    world.forced(Worker.objects.get(), "unresponsive")
    clock.shift(150)
    assert expect_ok(agent.post(place))["state"] == "idle"


def test_the_use_of_the_token_is_noted_every_minute(agent: Caller, place: str, clock: Any) -> None:
    for _ in range(3):
        clock.shift(30)
        expect_ok(agent.post(place))
    assert Token.objects.get().last_used_at == now() - timedelta(seconds=30)


@pytest.mark.parametrize("is_wanted", [False, True])
def test_the_log_has_heartbeats_if_wanted(agent: Caller, place: str, settings: Any, is_wanted: bool) -> None:
    settings.STATECORE_LOG_ROUTINE_REQUESTS = is_wanted
    with structlog.testing.capture_logs() as lines:
        response = agent.post(place)
    assert [(line["request"], line["actor"], line["by"]) for line in lines if line["event"] == "request"] == [
        (f"POST /api/v1/{place}", "agent-7", "token agent-7")
    ] * is_wanted
    assert response["X-Request-ID"]
