"""Who was heard before is heard again by one statement, which asks everything that was asked the first time."""

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
from tests.api.callers import Caller, done, member, refused
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def clock() -> Any:
    with time_machine.travel("2026-01-01T00:00:20Z", tick=False) as moved:
        yield moved


@pytest.fixture
def agent(clock: Any) -> Caller:
    """An operator's token of an agent, that is: not of a superuser."""
    return Caller(user=member("owner", "operator"), name="agent-7")


@pytest.fixture
def place(agent: Caller) -> str:
    """Where its own worker was heard from once."""
    worker = done(agent.post("workers/", {}), 201)["id"]
    done(agent.post(f"workers/{worker}/heartbeat/"))
    return f"workers/{worker}/heartbeat/"


def heard(place: str) -> Any:
    return Worker.objects.get(pk=place.split("/")[1]).last_heartbeat


def test_it_is_one_statement(agent: Caller, place: str, clock: Any, django_assert_num_queries: Any) -> None:
    clock.shift(10)
    with django_assert_num_queries(1):
        assert done(agent.post(place)) == {"state": "idle", "commands": []}
    assert heard(place) == now()


def test_it_may_say_what_it_holds(agent: Caller, place: str, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        told = done(agent.post(place, {"holds": [{"task": "t-1", "attempt": 1}]}))
    assert told["commands"] == [{"cancel": "t-1", "attempt": 1}]


def _revoke(agent: Caller) -> None:
    tokens.revoke(agent.token)


def _expire(agent: Caller) -> None:
    Token.objects.update(expires_at=now())


def _dismiss(agent: Caller) -> None:
    User.objects.update(is_active=False)


@pytest.mark.parametrize("end", [_revoke, _expire, _dismiss])
def test_a_token_that_is_good_no_more_is_refused_at_once(
    agent: Caller, place: str, clock: Any, end: Callable[[Caller], None]
) -> None:
    before = heard(place)
    clock.shift(1)
    end(agent)
    refused(agent.post(place), 401, "not_authenticated")
    refused(agent.post(place, {"holds": "nonsense"}), 401, "not_authenticated")
    assert heard(place) == before


def test_an_owner_who_lost_the_right_takes_it_from_the_token(agent: Caller, place: str, clock: Any) -> None:
    before = heard(place)
    clock.shift(1)
    agent.user.groups.clear()
    told = refused(agent.post(place), 403, "permission_denied")
    assert told["required"] == "statecore.operate_worker"
    assert heard(place) == before
    agent.user.user_permissions.set(Permission.objects.filter(codename="operate_worker"))
    done(agent.post(place))
    assert heard(place) == now()


def test_a_right_to_see_is_no_right_to_operate(agent: Caller, place: str) -> None:
    agent.user.groups.set(Group.objects.filter(name="viewer"))
    refused(agent.post(place), 403, "permission_denied")


def test_it_lets_no_other_worker_beat(agent: Caller, place: str) -> None:
    stranger = Caller(name="agent-8")
    refused(stranger.post(place), 403, "permission_denied")
    own = done(stranger.post("workers/", {}), 201)["id"]
    done(stranger.post(f"workers/{own}/heartbeat/"))
    refused(stranger.post(place), 403, "permission_denied")
    refused(stranger.post("workers/nobody/heartbeat/"), 404, "not_found")


def test_where_all_is_read_only_nobody_is_heard(agent: Caller, place: str, clock: Any, settings: Any) -> None:
    before = heard(place)
    clock.shift(1)
    settings.STATECORE_READ_ONLY_FOR_PROGRAMS = True
    refused(agent.post(place), 403, "permission_denied")
    assert heard(place) == before


@pytest.mark.parametrize("body", [{}, {"request_id": "again"}, {"holds": "nonsense"}])
def test_each_one_counts_once(agent: Caller, place: str, clock: Any, settings: Any, body: dict[str, Any]) -> None:
    """Whichever way it takes."""
    settings.STATECORE_CALLS_PER_MINUTE = 3
    clock.shift(40)
    codes = [agent.post(place, body).status_code for _ in range(4)]
    assert codes == [codes[0]] * 3 + [429]


def test_who_calls_too_often_is_not_heard(agent: Caller, place: str, clock: Any, settings: Any) -> None:
    settings.STATECORE_CALLS_PER_MINUTE = 1
    clock.shift(timedelta(days=3, seconds=40))  # to a minute in which no other test has called
    done(agent.post(place))
    clock.shift(1)
    assert refused(agent.post(place), 429, "throttled")["retry_after"] == 59
    assert heard(place) == now() - timedelta(seconds=1)


def test_under_a_key_it_is_answered_as_before(agent: Caller, place: str, clock: Any) -> None:
    done(agent.post(place, **{"Idempotency-Key": "one"}))
    before = heard(place)
    clock.shift(1)
    assert agent.post(place, **{"Idempotency-Key": "one"})["Idempotent-Replayed"] == "true"
    assert heard(place) == before


def test_what_was_sent_is_looked_at(agent: Caller, place: str) -> None:
    assert "nonsense" in refused(agent.post(place, {"nonsense": 1}), 400, "invalid")["errors"]


def test_a_worker_that_was_missed_is_back(agent: Caller, place: str, clock: Any) -> None:
    world.forced(Worker.objects.get(), "unresponsive")
    clock.shift(150)
    assert done(agent.post(place))["state"] == "idle"


def test_the_use_of_the_token_is_noted_every_minute(agent: Caller, place: str, clock: Any) -> None:
    for _ in range(3):
        clock.shift(30)
        done(agent.post(place))
    assert Token.objects.get().last_used_at == now() - timedelta(seconds=30)


def test_the_log_names_who_called(agent: Caller, place: str) -> None:
    with structlog.testing.capture_logs() as lines:
        response = agent.post(place)
    assert [(line["call"], line["actor"], line["by"]) for line in lines if line["event"] == "called"] == [
        (f"POST /api/v1/{place}", "agent-7", "token agent-7")
    ]
    assert response["X-Request-ID"]
