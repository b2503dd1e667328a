"""Attack: an agent adds parts to the run of another account, or runs the gates of others before their work is done."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.support import world

pytestmark = pytest.mark.django_db

WORKSTREAM = {"id": "ws", "tasks": [{"id": "t"}], "max_repairs": 1}
FAILED = {"trigger": "execution_failed", "error": "on purpose", "attempt": 1}
DONE = {"trigger": "execution_completed", "attempt": 1, "exit_code": 0}


@pytest.fixture
def phase() -> str:
    return str(world.phase().pk)


def submit(caller: Caller, phase: str, **more: Any) -> dict[str, Any]:
    plan = {"id": "run", "phase": phase, "start": True, "workstreams": [WORKSTREAM], **more}
    return dict(expect_ok(caller.post("runs/submit/", plan), 201))


def claim(agent: Caller) -> list[str]:
    worker = expect_ok(agent.post("workers/", {"capabilities": []}), 201)["id"]
    return [task["id"] for task in expect_ok(agent.post(f"workers/{worker}/claim/"))["tasks"]]


def add_parts(agent: Caller) -> list[Any]:
    """Tries to add each kind of part to the run; returns the responses."""
    diff = expect_ok(agent.post("diffs/", {"diff": "--- a/x\n+++ b/x\n"}), 201)["id"]
    return [
        agent.post("tasks/", {"workstream": "ws", "is_critical": True}),
        agent.post("workstreams/", {"run": "run", "is_critical": True}),
        agent.post("patches/", {"workstream": "ws", "patch": diff}),
    ]


@pytest.mark.parametrize("scope", ["agent", "operate"])
def test_an_agent_adds_a_part_whose_failure_fails_the_run_of_another_account(phase: str, scope: str) -> None:
    submitter, attacker = Caller(scope), Caller("agent")
    submit(submitter, phase)
    for response in add_parts(attacker):
        expect_refusal(response, 403, "not_the_holder")
    run = expect_ok(attacker.get("runs/run/"))
    assert (run["state"], world.model("Task").objects.count(), world.model("PatchLedger").objects.count()) == (
        "running", 1, 0,
    )  # fmt: skip


def test_an_agent_starts_the_run_of_another_account_to_add_a_part(phase: str) -> None:
    submit(Caller("operate"), phase, start=False)
    attacker = Caller("agent")
    expect_ok(attacker.post("runs/run/transitions/", {"trigger": "run_started"}))
    expect_refusal(attacker.post("tasks/", {"workstream": "ws"}), 403, "not_the_holder")


@pytest.mark.parametrize("scope", ["agent", "operate"])
def test_the_account_that_submitted_the_run_adds_parts_with_another_token(phase: str, scope: str) -> None:
    submitter = Caller(scope)
    submit(submitter, phase)
    for response in add_parts(Caller("agent", user=submitter.user)):
        expect_ok(response, 201)


def test_the_account_that_submitted_a_run_adds_parts_to_its_retry(phase: str) -> None:
    submitter = Caller("agent")
    submit(submitter, phase)
    expect_ok(Caller("operate").post("runs/run/transitions/", {"trigger": "run_canceled"}))
    expect_ok(Caller("operate").post("runs/run/retry/"), 201)
    again = world.model("Workstream").objects.get(retry_of="ws").pk
    expect_ok(submitter.post("tasks/", {"workstream": again}), 201)
    expect_refusal(Caller("agent").post("tasks/", {"workstream": again}), 403, "not_the_holder")


def test_an_account_that_works_on_a_run_adds_the_task_that_repairs_it(phase: str) -> None:
    gate = {"id": "final", "gate_type": "UNIT", "command": "pytest"}
    submit(Caller("operate"), phase, workstreams=[{**WORKSTREAM, "gates": [gate]}])
    agent, integrator = Caller("agent"), Caller("integrate")
    assert claim(agent) == ["t"]
    expect_ok(agent.post("tasks/t/transitions/", DONE))
    expect_ok(integrator.post("gates/final/transitions/", {"trigger": "gate_started"}))
    expect_ok(integrator.post("gates/final/transitions/", {"trigger": "gate_failed", "exit_code": 1}))
    expect_refusal(Caller("agent").post("tasks/", {"workstream": "ws"}), 403, "not_the_holder")
    repair = {"id": "repair", "workstream": "ws"}
    expect_ok(Caller("agent", user=agent.user).post("tasks/", repair), 201)
    assert expect_ok(agent.get("workstreams/ws/"))["repairs"] == 1


@pytest.mark.parametrize("link", ["gates", "entry_gates"])
@pytest.mark.parametrize("gate", ["exit", "final"])
def test_an_agent_has_the_gate_of_others_run_before_their_work_is_done(phase: str, link: str, gate: str) -> None:
    """A gate with several tasks runs after any of them, and a gate of tasks is no final gate."""
    gates = [{"id": each, "gate_type": "UNIT", "command": "pytest"} for each in ("exit", "final")]
    workstream = {**WORKSTREAM, "tasks": [{"id": "t", "gates": ["exit"]}], "gates": gates[1:]}
    submit(Caller("operate"), phase, workstreams=[workstream], gates=gates[:1])
    agent = Caller("agent")
    own = {"id": "mine", "phase": phase, "start": True}
    for given in (
        {"workstreams": [{"id": "w", "tasks": [{"id": "x", link: [gate]}]}]},
        {
            "workstreams": [{"id": "w", "tasks": [{"id": "x"}]}],
            "gates": [{"id": "g", "gate_type": "UNIT", "command": "pytest", "depends_on": [gate]}],
        },
    ):
        expect_refusal(agent.post("runs/submit/", {**own, **given}), 403, "permission_denied")
    expect_ok(agent.post("runs/submit/", {**own, "workstreams": [{"id": "w", "tasks": [{"id": "x"}]}]}), 201)
    expect_refusal(agent.post("tasks/", {"workstream": "w", link: [gate]}), 403, "permission_denied")
    expect_ok(Caller("operate").post("tasks/", {"workstream": "w", link: [gate]}), 201)


def test_an_agent_uses_a_gate_that_tests_no_task_yet(phase: str) -> None:
    shared = world.gate().pk
    plan = {"phase": phase, "workstreams": [{"id": "w", "tasks": [{"id": "x", "gates": [shared]}]}]}
    expect_ok(Caller("agent").post("runs/submit/", plan), 201)
    again = {"phase": phase, "workstreams": [{"id": "v", "tasks": [{"id": "y", "gates": [shared]}]}]}
    expect_refusal(Caller("agent").post("runs/submit/", again), 403, "permission_denied")
