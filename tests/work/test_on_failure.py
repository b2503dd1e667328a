"""Dependency timeouts, and plans with `on_failure: fail`: a run in which nothing can continue fails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from statecore import transitions
from statecore.delivery.sinks.alert_rules import find_decisions
from statecore.journal import Event
from statecore.kernel.clock import now
from statecore.kernel.refusals import GuardFailed, Invalid
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.read_models.stuck import explain, list_stuck
from statecore.scheduling import timers
from tests.support import world
from tests.work.agents import Agent, gate, run_gate, states, submit, task, workstream

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def clock() -> Iterator[Any]:
    with time_machine.travel(datetime(2026, 1, 5, 8, tzinfo=UTC), tick=False) as traveller:
        yield traveller


def lose(agent: Agent, *names: str) -> None:
    for held in agent.claim():
        agent.fail(held) if held.pk in names else agent.finish(held)


def run_state() -> str:
    return str(Run.objects.get().state)


def frail(name: str, *after: str, **more: Any) -> dict[str, Any]:
    return task(name, *after, max_retries=0, **more)


def test_a_run_fails_when_nothing_can_continue_and_not_before() -> None:
    submit(workstream("w", frail("a"), task("b", "a")), workstream("v", "c"), on_failure="fail")
    agent = Agent(max_concurrent_tasks=2)
    first, second = agent.claim()
    agent.fail(first)
    assert (timers.fail_stopped_runs(), run_state()) == (0, "running")  # c still runs
    agent.finish(second)
    assert (timers.fail_stopped_runs(), run_state()) == (1, "failed")
    assert states(Workstream) == {"w": "cancelled", "v": "completed"}
    assert states(Task) == {"a": "failed", "b": "cancelled", "c": "completed"}
    event = Event.objects.get(entity_type="run", trigger="nothing_can_continue")
    assert (event.severity, event.kind) == ("error", "normal")
    assert timers.fail_stopped_runs() == 0
    assert [str(found) for found in integrity.check_all()] == []


def test_by_default_a_run_waits_for_a_decision() -> None:
    submit(workstream("w", frail("a")))
    lose(Agent(), "a")
    assert (timers.fail_stopped_runs(), run_state()) == (0, "running")
    with pytest.raises(GuardFailed, match="waits for a decision"):
        world.fire(Run.objects.get(), "nothing_can_continue")


def test_a_failed_workstream_that_is_not_critical_fails_the_run_at_its_end() -> None:
    submit(workstream("w", frail("a", is_critical=True)), workstream("v", "b", depends_on=["w"]), on_failure="fail")
    lose(Agent(), "a")
    assert states(Workstream) == {"w": "failed", "v": "blocked"}
    assert (timers.fail_stopped_runs(), run_state()) == (1, "failed")


def test_a_failed_gate_stops_what_it_blocks() -> None:
    tasks = (task("a", gates=["g"]), task("b", "a"))
    submit(workstream("w", *tasks), gates=[gate("g")], on_failure="fail")
    lose(Agent())
    assert timers.fail_stopped_runs() == 0  # the gate is due
    run_gate("g", exit_code=1)
    assert states(Task) == {"a": "blocked", "b": "blocked"}
    assert (timers.fail_stopped_runs(), run_state()) == (1, "failed")


def test_a_task_behind_a_chain_of_gates_stops_with_the_first_of_them() -> None:
    chain = [gate("g1", max_reruns=1), gate("g2", depends_on=["g1"]), gate("g3", depends_on=["g2"])]
    submit(workstream("w", task("a", gates=["g3"])), gates=chain, on_failure="fail")
    lose(Agent())
    run_gate("g1", exit_code=1)
    assert timers.fail_stopped_runs() == 0  # it is run again
    run_gate("g1:2", exit_code=1)
    assert (states(TestGate)["g3"], states(Task)["a"]) == ("PENDING", "validating")
    assert (timers.fail_stopped_runs(), run_state()) == (1, "failed")


def test_a_task_that_repairs_what_a_gate_rejected_continues() -> None:
    submit(workstream("w", task("a", gates=["g"], max_repairs=1)), gates=[gate("g")], on_failure="fail")
    agent = Agent()
    agent.work()
    run_gate("g", exit_code=1)
    assert (states(Task)["a"], timers.fail_stopped_runs()) == ("queued", 0)
    agent.work()
    run_gate("g:2", exit_code=1)
    assert (states(Task)["a"], timers.fail_stopped_runs()) == ("blocked", 1)


def test_what_operators_pause_repair_or_have_yet_to_create_continues() -> None:
    submit(
        workstream("paused", frail("a")),
        workstream("repaired", "b", gates=[gate("g")], max_repairs=1),
        on_failure="fail",
    )
    agent = Agent(max_concurrent_tasks=2)
    held = {each.pk: each for each in agent.claim()}
    transitions.transition(Workstream, "paused", "workstream_paused", actor=world.operator(), reason="wait")
    agent.finish(held["b"])
    run_gate("g", exit_code=1)
    agent.fail(held["a"])
    assert states(Workstream) == {"paused": "paused", "repaired": "validating"}
    assert (timers.fail_stopped_runs(), run_state()) == (0, "running")
    empty = transitions.create(Run, phase="PH-work", on_failure="fail", actor=world.operator()).entity
    world.fire(empty, "run_started")
    assert timers.fail_stopped_runs() == 0


def test_a_task_that_waits_for_another_run_continues_while_that_does() -> None:
    submit(workstream("other", "x"), id="r0")
    submit(workstream("w", "a"), on_failure="fail")
    late = transitions.create(Task, id="late", workstream="w", depends_on=["x"], actor=world.operator()).entity
    (first, *_others) = sorted(Agent(max_concurrent_tasks=2).claim(), key=lambda each: str(each.pk))
    transitions.transition(Task, first.pk, "execution_completed", actor=Agent.registered("w").actor,
                           params={"attempt": 1, "exit_code": 0})  # fmt: skip
    assert (first.pk, Task.objects.get(pk=late.pk).state) == ("a", "blocked")
    assert timers.fail_stopped_runs() == 0
    transitions.transition(Task, "x", "user_cancelled", actor=world.operator())
    assert timers.fail_stopped_runs() == 1


@pytest.mark.parametrize("value", ["", "sometimes", 1, None])
def test_another_word_is_refused(value: Any) -> None:
    with pytest.raises(Invalid) as refusal:
        submit(workstream("w", "a"), on_failure=value)
    assert "on_failure" in str(refusal.value.facts["errors"])


# Dependency timeouts


def test_after_its_dependency_timeout_a_task_needs_a_decision(clock: Any) -> None:
    submit(workstream("w", "a", task("b", "a", dependency_timeout_sec=60)))
    due = now() + 60 * SECOND
    assert Task.objects.get(pk="b").dependency_due_at == due
    clock.shift(59 * SECOND)
    assert [item.entity.pk for item in list_stuck()] == []
    clock.shift(SECOND)
    (item,) = list_stuck()
    assert (item.entity.pk, item.kind, item.since) == ("b", "needs a decision", due)
    assert item.why.startswith("task b is past its dependency timeout of 1 min and waits for a")
    assert "user_cancelled" in item.recovery.action
    assert [found.detail.startswith("task b needs a decision") for found in find_decisions(now())] == [True]
    assert (timers.fail_blocked_tasks(), states(Task)["b"]) == (0, "blocked")
    assert "dependency timeout" in str(explain(Task, "b"))
    Agent().work()
    assert (states(Task)["b"], list_stuck()) == ("completed", [])


def test_it_fails_where_the_plan_says_so(clock: Any) -> None:
    tasks = ("a", frail("b", "a", dependency_timeout_sec=60, is_critical=True))
    submit(workstream("w", *tasks, is_critical=True), on_failure="fail")
    clock.shift(59 * SECOND)
    assert timers.fail_blocked_tasks() == 0
    clock.shift(SECOND)
    assert timers.fail_blocked_tasks() == 1
    assert Task.objects.get(pk="b").last_error == "blocked by a for longer than 60 s"
    assert (states(Task), run_state()) == ({"a": "cancelled", "b": "failed"}, "failed")


def test_a_changed_timeout_counts_from_the_same_moment(clock: Any) -> None:
    submit(workstream("w", "a", task("b", "a")))
    clock.shift(30 * SECOND)
    transitions.edit(Task, "b", {"dependency_timeout_sec": 40}, actor=world.operator())
    assert Task.objects.get(pk="b").dependency_due_at == now() + 10 * SECOND
    Agent().work()
    assert Task.objects.get(pk="b").dependency_due_at is None


def test_a_paused_workstream_times_nothing_out(clock: Any) -> None:
    submit(workstream("w", "a", task("b", "a", dependency_timeout_sec=60)), on_failure="fail")
    transitions.transition(Workstream, "w", "workstream_paused", actor=world.operator(), reason="wait")
    clock.shift(61 * SECOND)
    assert (timers.fail_blocked_tasks(), list_stuck()) == (0, [])
    transitions.transition(Workstream, "w", "workstream_resumed", actor=world.operator(), reason="go")
    assert timers.fail_blocked_tasks() == 1


def test_a_waived_gate_moves_what_it_blocks() -> None:
    submit(workstream("w", task("a", gates=["g"])), gates=[gate("g")], on_failure="fail")
    lose(Agent())
    run_gate("g", exit_code=1)
    given = {"reason": world.REASON, "category": "other", "expires_at": None}
    transitions.waive(TestGate, "g", actor=world.operator(), **given)
    assert (timers.fail_stopped_runs(), run_state()) == (0, "running")
