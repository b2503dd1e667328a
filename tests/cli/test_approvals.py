"""The commands of approvals: one person requests, another lists, approves and denies with their own token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from statecore.journal import Event
from statecore.machines.circuit_breaker import CircuitBreaker
from statecore.records import token as tokens
from tests.agent.process import claim_as_w1, state, submit
from tests.cli.process import REASON, Statecore
from tests.support import site as sites
from tests.support import world
from tests.support.site import Site


@pytest.fixture(scope="module")
def the_site(django_db_setup: None, redis_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    policy = "task->failed, circuit_breaker->CLOSED"
    with sites.running(tmp_path_factory.mktemp("site"), redis_server, STATECORE_SECOND_PERSON=policy) as site:
        yield site


@pytest.fixture
def bob(site: Site) -> dict[str, str]:
    """The environment of a second person."""
    other: Any = User.objects.create_superuser("bob")
    return {"STATECORE_TOKEN": tokens.make("bobs", other, "override")[1]}


def ask(statecore: Statecore) -> str:
    submit({"id": "t1"})
    claim_as_w1()
    asked = statecore("fail-task", "t1", *REASON, code=8)
    request_id = asked.out.split()[0]
    assert asked.out == f"{request_id} pending: task t1 running → failed\n"
    assert f"statecore approve {request_id}" in asked.err
    assert state("t1") == "running"
    return request_id


def test_a_protected_override_waits_for_another_person(statecore: Statecore, bob: dict[str, str]) -> None:
    request_id = ask(statecore)
    assert "same_person" in statecore("approve", request_id, code=4).err
    (listed,) = statecore("approvals", "--json", **bob).json
    assert (listed["id"], listed["requested_by"], listed["status"]) == (request_id, "ada", "pending")
    done = statecore("approve", request_id, "--comment", "seen", **bob).out
    assert done.startswith("task t1: running → failed (manual_override)")
    event = Event.objects.filter(entity_id="t1").latest("sequence").as_dict()
    assert (event["operator"], event["approver"]) == ("ada", "bob")
    assert statecore("approvals").out == "no pending requests\n"
    assert request_id in statecore("approvals", "--status", "approved").out


def test_another_person_denies(statecore: Statecore, bob: dict[str, str]) -> None:
    request_id = ask(statecore)
    assert statecore("deny", request_id, "--comment", "no", **bob).out.startswith(f"{request_id} denied")
    assert state("t1") == "running"
    statecore("approve", request_id, code=3, **bob)


def test_a_request_is_json_for_programs(statecore: Statecore, bob: dict[str, str]) -> None:
    submit({"id": "t1"})
    claim_as_w1()
    (asked,) = statecore("--json", "fail-task", "t1", *REASON, code=8).json
    assert asked["approval"]["status"] == "pending"


def test_a_playbook_stops_at_a_request(statecore: Statecore) -> None:
    world.open_breaker("pytest")
    output = statecore("playbook", "reset-breaker", "pytest", "--reason", "the tool works again", code=8)
    assert "another person decides" in output.err
    assert CircuitBreaker.objects.get().state == "OPEN"
