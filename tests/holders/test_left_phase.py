"""Attack: an agent leaves the rules of its phase by a phase, a gate or limits of its own (issue 15, attack 11)."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.support import world

pytestmark = pytest.mark.django_db

SIXTY_YEARS = 60 * 365 * 24 * 3600


@pytest.fixture
def phase() -> str:
    rules = {"id": "PH", "allowed_paths": ["src/*"]}
    return str(expect_ok(Caller("operate").post("phases/", rules), 201)["id"])


def plan(phase: str, *, gate: dict[str, Any] | None = None, **task: Any) -> dict[str, Any]:
    gates = [{"id": "g", "gate_type": "UNIT", "command": "pytest -q", **gate}] if gate is not None else []
    return {"phase": phase, "workstreams": [{"id": "ws", "gates": gates, "tasks": [{"id": "t", **task}]}]}


def test_an_agent_creates_a_phase_that_allows_every_path(phase: str) -> None:
    agent = Caller("agent")
    refusal = expect_refusal(agent.post("phases/", {"id": "mine"}), 403, "permission_denied")
    assert refusal["required"] == "statecore.add_phase"
    expect_refusal(agent.patch("phases/PH/", {"allowed_paths": []}), 403, "permission_denied")
    refusal = expect_refusal(agent.post("runs/submit/", plan("mine")), 400, "invalid")
    assert "phase" in refusal["errors"]
    assert [each["id"] for each in expect_ok(agent.get("phases/"))["results"]] == ["PH"]


def test_an_agent_creates_or_changes_a_gate(phase: str) -> None:
    agent, gate = Caller("agent"), world.gate()
    body = {"phase": phase, "gate_type": "UNIT", "command": "true", "timeout_sec": SIXTY_YEARS}
    refusal = expect_refusal(agent.post("gates/", body), 403, "permission_denied")
    assert refusal["required"] == ["operator", "system"]
    expect_refusal(agent.patch(f"gates/{gate.pk}/", {"command": "true"}), 403, "not_the_holder")
    expect_ok(Caller("operate").post("gates/", body), 201)


def test_an_agent_changes_the_limits_of_its_task(phase: str) -> None:
    agent = Caller("agent")
    expect_ok(agent.post("runs/submit/", {**plan(phase), "start": True}), 201)
    worker = expect_ok(agent.post("workers/", {"capabilities": []}), 201)["id"]
    expect_ok(agent.post(f"workers/{worker}/claim/"))
    refusal = expect_refusal(agent.patch("tasks/t/", {"timeout_sec": 60, "priority": 9}), 400, "invalid")
    assert refusal["errors"] == {name: ["is changed by operators."] for name in ("timeout_sec", "priority")}
    assert expect_ok(agent.patch("tasks/t/", {"metadata": {"note": 1}}))["metadata"] == {"note": 1}
    expect_ok(agent.patch(f"workers/{worker}/", {"max_concurrent_tasks": 2}))
    expect_ok(Caller("operate").patch("tasks/t/", {"timeout_sec": 60}))


BEYOND: dict[str, tuple[dict[str, Any], str, str]] = {
    "the time-out of a task": ({"timeout_sec": SIXTY_YEARS}, "tasks[0].timeout_sec", "at most 86400"),
    "the retries of a task": ({"max_retries": 11}, "tasks[0].max_retries", "at most 10"),
    "the payload of a task": ({"payload": {"text": "x" * 2_000}}, "tasks[0].payload", "at most 1024 bytes"),
    "the patch of a task": ({"patch": "patch_1"}, "tasks[0].patch", "set by operators"),
    "the time-out of a gate": ({"gate": {"timeout_sec": SIXTY_YEARS}}, "gates[0].timeout_sec", "at most 86400"),
    "the command of a gate": ({"gate": {"command": "sh -c true"}}, "gates[0].command", "one of pytest"),
}


@pytest.mark.parametrize("field", BEYOND)
def test_a_plan_of_an_agent_goes_beyond_the_limits(phase: str, field: str, settings: Any) -> None:
    settings.STATECORE_AGENT_PAYLOAD_BYTES = 1_024
    settings.STATECORE_GATE_COMMANDS = ("pytest",)
    change, place, limit = BEYOND[field]
    refusal = expect_refusal(Caller("agent").post("runs/submit/", plan(phase, **change)), 400, "invalid")
    assert list(refusal["errors"]) == [f"workstreams[0].{place}"]
    assert limit in refusal["errors"][f"workstreams[0].{place}"][0]
    if field != "the patch of a task":
        expect_ok(Caller("operate").post("runs/submit/", plan(phase, **change)), 201)


def test_an_agent_creates_a_task_beyond_the_limits(phase: str) -> None:
    agent = Caller("agent")
    workstream = world.workstream(run=world.run_by(agent.token.as_agent()))
    body = {"workstream": workstream.pk, "timeout_sec": SIXTY_YEARS}
    assert list(expect_refusal(agent.post("tasks/", body), 400, "invalid")["errors"]) == ["timeout_sec"]
    expect_ok(agent.post("tasks/", {**body, "timeout_sec": 60}), 201)


def test_a_plan_of_an_agent_has_too_many_entities(phase: str, settings: Any) -> None:
    settings.STATECORE_AGENT_PLAN_ENTITIES = 1
    refusal = expect_refusal(Caller("agent").post("runs/submit/", plan(phase)), 400, "invalid")
    assert refusal["errors"] == {"plan": ["must hold at most 1 entities in all."]}
    expect_ok(Caller("operate").post("runs/submit/", plan(phase)), 201)


def test_a_plan_of_an_agent_stays_inside_the_limits(phase: str, settings: Any) -> None:
    settings.STATECORE_GATE_COMMANDS = (sys.executable, "pytest")
    gate = {"command": "pytest -q tests", "timeout_sec": 86_400}
    accepted = plan(phase, gate=gate, timeout_sec=86_400, max_retries=10, payload={"text": "short"})
    assert expect_ok(Caller("agent").post("runs/submit/", accepted), 201)["gates"] == 1


def test_an_agent_sets_the_thresholds_of_a_breaker() -> None:
    body = {"id": "compiler", "failure_threshold": 1, "cooldown_seconds": SIXTY_YEARS}
    expect_refusal(Caller("agent").post("breakers/", body), 403, "permission_denied")
    expect_ok(Caller("operate").post("breakers/", body), 201)
