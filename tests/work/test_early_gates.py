"""Where no executors run, integrators start gates: not before the work that the gate tests is done."""

from __future__ import annotations

from typing import Any

import pytest

from statecore import transitions
from statecore.kernel.refusals import GuardFailed
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from tests.support import world
from tests.work.agents import Agent, gate, states, submit, task, workstream

pytestmark = pytest.mark.django_db


def start(name: str) -> Any:
    return transitions.transition(TestGate, name, "gate_started", actor=world.INTEGRATOR)


def run(name: str, exit_code: int = 0) -> None:
    start(name)
    trigger = "gate_failed" if exit_code else "gate_passed"
    transitions.transition(TestGate, name, trigger, actor=world.INTEGRATOR, params={"exit_code": exit_code})


def refuse(name: str, unfinished: str) -> None:
    """The refusal names the task or workstream whose work is not done."""
    with pytest.raises(GuardFailed) as refused:
        start(name)
    (unmet,) = refused.value.unmet
    assert (unmet.code, unmet.entity) == ("work_unfinished", unfinished)


def test_an_exit_gate_waits_for_the_work_of_its_task() -> None:
    submit(workstream("w", task("t", gates=["g"])), gates=[gate("g")])
    agent = Agent()
    refuse("g", "t")
    (held,) = agent.claim()
    refuse("g", "t")
    agent.finish(held)
    run("g", exit_code=1)
    transitions.retry(TestGate, "g", actor=world.operator())
    run("g:2")
    assert agent.work() == ["t"]
    assert states(Workstream) == {"w": "completed"}


def test_a_gate_of_several_tasks_runs_after_any_of_them() -> None:
    submit(workstream("w", task("t", gates=["g"]), task("u", "t", gates=["g"])), gates=[gate("g")])
    refuse("g", "t")
    Agent().work()
    assert states(Task) == {"t": "validating", "u": "blocked"}
    run("g")
    assert states(Task) == {"t": "completed", "u": "queued"}


def test_a_final_gate_waits_for_its_workstream_unless_others_depend_on_it() -> None:
    gates = [gate("final"), gate("first"), gate("second", depends_on=["first"])]
    submit(workstream("w", task("t", entry_gates=["entry"]), gates=gates), gates=[gate("entry")])
    refuse("final", "w")
    run("first")
    run("entry")
    refuse("second", "w")
    Agent().work()
    run("second")
    run("final")
    assert states(Workstream) == {"w": "completed"}


def test_a_gate_that_rejected_work_waits_for_its_repair() -> None:
    exit_gate, final = gate("g"), gate("final")
    submit(workstream("w", task("t", gates=["g"]), gates=[final]), gates=[exit_gate], max_repairs=1)
    agent = Agent()
    agent.work()
    run("g", exit_code=1)
    refuse("g:2", "t")
    agent.work()
    run("g:2")
    run("final", exit_code=1)
    world.task(workstream=Workstream.objects.get(), id="fix")
    refuse("final:2", "fix")
    agent.work()
    run("final:2")
    assert states(Workstream) == {"w": "completed"}
