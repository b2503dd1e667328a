"""Tools of tasks and gates: their circuit breakers hold claims back, limit them, and learn from the results."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from statecore import transitions
from statecore.executors import due_gates
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import GuardFailed
from statecore.machines.circuit_breaker import CircuitBreaker
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.reactions import tools
from statecore.read_models import stuck
from statecore.scheduling import breakers, matching
from tests.machines.worlds import fixed_clock
from tests.support import world
from tests.work.agents import Agent, gate, states, submit, task, workstream

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock():
    with fixed_clock() as traveller:
        yield traveller


def breaker(tool: str = "aider") -> Any:
    return CircuitBreaker.objects.get(pk=tool)


def limit(most: int, tool: str = "aider") -> None:
    world.created("CircuitBreaker", id=tool, concurrency_limit=most)


def with_tool(*names: str, tool: str = "aider", **more: Any) -> list[dict[str, Any]]:
    return [task(name, tool=tool, max_retries=0, **more) for name in names]


def claimed(agent: Agent, most: int | None = None) -> list[str]:
    return [each.pk for each in agent.claim(most)]


def fail(agent: Agent, held: Task, **report: Any) -> None:
    params = {"attempt": held.attempt, "error": "it broke", **report}
    transitions.transition(Task, held.pk, "execution_failed", actor=agent.actor, params=params)


def open_by_failures(agent: Agent, times: int = 5) -> None:
    for _ in range(times):
        (held,) = agent.claim()
        fail(agent, held)


def open_breaker(clock: Any) -> Agent:
    """A plan of nine tasks, five of which have failed; the breaker is open."""
    submit(workstream("a", *with_tool(*(f"a{n}" for n in range(9)))))
    agent = Agent()
    open_by_failures(agent)
    assert breaker().state == "OPEN"
    return agent


def half_open(clock: Any, **fields: Any) -> Agent:
    agent = open_breaker(clock)
    clock.shift(timedelta(seconds=60))
    assert breakers.half_open_due() == 1
    return agent


def sentence(model: Any, name: str) -> str:
    return stuck.explain(model, name).sentence


# Claims


def test_the_first_claim_creates_the_breaker_and_gives_a_lease() -> None:
    submit(workstream("a", *with_tool("a1")))
    agent = Agent()
    assert claimed(agent) == ["a1"]
    assert (breaker().state, breaker().concurrency_limit) == ("CLOSED", 0)
    assert [lease.holder for lease in breaker().leases.all()] == [agent.actor.identity]


def test_an_open_breaker_holds_back_its_tasks_and_no_others(clock) -> None:
    agent = open_breaker(clock)
    assert claimed(agent) == []
    submit(workstream("b", "b1"), id="r2")
    assert claimed(agent) == ["b1"]


def test_a_half_open_breaker_lets_exactly_one_task_through(clock) -> None:
    half_open(clock)
    many = Agent("many", max_concurrent_tasks=4)
    submit(workstream("b", "b1", "b2"), id="r2")
    assert sorted(claimed(many)) == ["a5", "b1", "b2"]
    assert (breaker().probe_by, claimed(Agent("other"))) == ("task:a5", [])


def test_the_probe_closes_the_breaker(clock) -> None:
    agent = half_open(clock)
    (held,) = agent.claim()
    agent.finish(held)
    assert breaker().state == "CLOSED"
    assert claimed(agent) == ["a6"]


def test_a_failed_probe_opens_the_breaker_again(clock) -> None:
    agent = half_open(clock)
    (held,) = agent.claim()
    fail(agent, held)
    assert (breaker().state, breaker().last_error) == ("OPEN", "it broke")


def test_a_late_report_of_the_same_agent_does_not_decide(clock) -> None:
    submit(workstream("a", *with_tool(*(f"a{n}" for n in range(9)))))
    agent = Agent()
    (old,) = agent.claim()
    second = Agent.registered("second")
    second.actor = agent.actor
    transitions.create(Worker, id="second", actor=agent.actor)
    transitions.transition(Worker, "second", "registration_completed", actor=agent.actor)
    open_by_failures(second)
    clock.shift(timedelta(seconds=60))
    breakers.half_open_due()
    (probe,) = second.claim()
    agent.finish(old)
    assert (breaker().state, breaker().probe_by) == ("HALF_OPEN", f"task:{probe.pk}")
    second.finish(probe)
    assert breaker().state == "CLOSED"


@pytest.mark.parametrize("end", ["cancel", "unknown"])
def test_a_probe_that_ends_without_a_result_lets_another_probe(clock, end: str) -> None:
    agent = half_open(clock)
    (held,) = agent.claim()
    if end == "cancel":
        transitions.transition(Task, held.pk, "cascade_cancelled", actor=THE_SYSTEM)
    else:
        fail(agent, held, tool_failed=None)
    assert (breaker().state, breaker().probe_by, breaker().probe_until) == ("HALF_OPEN", "", None)
    assert claimed(Agent("next")) == ["a6"]


def test_a_probe_lasts_as_long_as_its_task_may_run(clock) -> None:
    agent = half_open(clock)
    assert claimed(agent) == ["a5"]
    clock.shift(timedelta(seconds=1700))
    breakers.half_open_due()
    assert claimed(Agent("other")) == []


def test_a_limit_is_never_exceeded_and_keeps_no_other_task_back() -> None:
    limit(2)
    submit(workstream("a", *with_tool("a1", "a2", "a3"), "b1", "b2"))
    agent = Agent(max_concurrent_tasks=4)
    assert claimed(agent) == ["a1", "a2", "b1", "b2"]
    assert claimed(Agent("other")) == []


def test_an_exchange_frees_the_place_of_the_reported_task() -> None:
    limit(1)
    submit(workstream("a", *with_tool("a1", "a2")))
    agent = Agent()
    (held,) = agent.claim()
    assert [each.pk for each in agent.exchange(held).tasks] == ["a2"]


def test_many_tasks_of_an_unavailable_tool_cost_no_query_each(clock, django_assert_max_num_queries) -> None:
    agent = open_breaker(clock)
    submit(workstream("b", *with_tool(*(f"b{n}" for n in range(50))), "c"), id="r2")
    with django_assert_max_num_queries(25):
        assert claimed(agent) == ["c"]


def test_a_start_without_a_claim_needs_the_permission_too() -> None:
    limit(1)
    submit(workstream("a", *with_tool("a1", "a2")))
    first, second = Agent(), Agent("other")
    assert claimed(first) == ["a1"]
    with pytest.raises(GuardFailed) as refusal:
        transitions.transition(Task, "a2", "worker_started", actor=second.actor, params={"worker": "other"})
    assert refusal.value.facts["unmet"][0]["code"] == "tool_unavailable"
    assert states(Task)["a2"] == "queued"


def test_waiting_workers_are_not_woken_for_an_unavailable_tool(clock) -> None:
    open_breaker(clock)
    Agent("waiting")
    assert matching.find_workers_to_wake(["waiting"]) == []
    clock.shift(timedelta(seconds=60))
    breakers.half_open_due()
    assert matching.find_workers_to_wake(["waiting"]) == ["waiting"]


# Reports


@pytest.mark.parametrize(
    ("report", "counts"),
    [
        ({}, 1),  # no exit code: the call of the tool raised an error
        ({"exit_code": 1}, 0),  # a verdict about the work
        ({"exit_code": 127}, 1),
        ({"exit_code": 137}, 1),
        ({"exit_code": -9}, 1),
        ({"exit_code": 1, "tool_failed": True}, 1),
        ({"tool_failed": False}, 0),
        ({"exit_code": 137, "tool_failed": None}, 0),
    ],
)
def test_failures_of_the_tool_count_and_failures_of_the_work_do_not(report: dict[str, Any], counts: int) -> None:
    submit(workstream("a", *with_tool("a1")))
    agent = Agent()
    (held,) = agent.claim()
    fail(agent, held, **report)
    assert breaker().failure_count == counts


def test_a_timeout_counts_and_a_lost_worker_does_not(clock) -> None:
    submit(workstream("a", *with_tool("a1", "a2", timeout_sec=60, heartbeat_sec=3600)))
    agent, lost = Agent(), Agent("lost")
    agent.claim()
    lost.claim()
    clock.shift(timedelta(seconds=61))
    transitions.transition(Task, "a1", "timeout_exceeded", actor=THE_SYSTEM)
    assert breaker().failure_count == 1
    transitions.transition(Task, "a2", "execution_failed", actor=THE_SYSTEM, params={"error": "worker lost"})
    assert breaker().failure_count == 1


def test_one_agent_alone_does_not_open_the_breaker_that_others_use() -> None:
    submit(workstream("a", *with_tool(*(f"a{n}" for n in range(9)))))
    healthy, broken = Agent("healthy"), Agent("broken")
    healthy.claim()
    open_by_failures(broken, 6)
    assert breaker().state == "CLOSED"


def test_a_success_clears_the_failures() -> None:
    submit(workstream("a", *with_tool("a1", "a2")))
    agent = Agent()
    (held,) = agent.claim()
    fail(agent, held)
    (held,) = agent.claim()
    agent.finish(held)
    assert breaker().failure_count == 0


# Gates


def run_gates(*names: str, exit_code: int) -> None:
    trigger = "gate_failed" if exit_code else "gate_passed"
    for name in names:
        transitions.transition(TestGate, name, "gate_started", actor=THE_SYSTEM)
        transitions.transition(TestGate, name, trigger, actor=THE_SYSTEM, params={"exit_code": exit_code})


def entry_gates(count: int) -> list[str]:
    """A plan with one task and its entry gates, all with the tool pytest."""
    names = [f"g{n}" for n in range(count)]
    submit(workstream("a", task("a1", entry_gates=names), gates=[gate(name, tool="pytest") for name in names]))
    return names


def test_gates_that_do_not_run_to_their_end_open_the_breaker_and_others_wait(settings) -> None:
    settings.STATECORE_GATE_COMMANDS = ["true"]
    names = entry_gates(7)
    run_gates(names[0], exit_code=1)
    assert breaker("pytest").failure_count == 0
    assert len(due_gates.find_due()) == 6
    run_gates(*names[1:6], exit_code=125)
    assert (breaker("pytest").state, due_gates.find_due()) == ("OPEN", [])
    with pytest.raises(GuardFailed):
        transitions.transition(TestGate, names[6], "gate_started", actor=THE_SYSTEM)
    assert sentence(TestGate, "g6").endswith("waits for tool pytest: breaker open, probe in 1 min")


def test_tasks_and_gates_share_the_limit() -> None:
    limit(2, "pytest")
    submit(
        workstream("a", *with_tool("a1", tool="pytest"), gates=[gate("g1", tool="pytest"), gate("g2", tool="pytest")])
    )
    assert claimed(Agent()) == ["a1"]
    transitions.transition(TestGate, "g1", "gate_started", actor=THE_SYSTEM)
    with pytest.raises(GuardFailed):
        transitions.transition(TestGate, "g2", "gate_started", actor=THE_SYSTEM)
    assert {tool: count for tool, (_row, count) in tools.find_unavailable().items()} == {"pytest": 2}


# Explanations


def test_explanations_name_the_tool_and_why_it_is_unavailable(clock) -> None:
    open_breaker(clock)
    clock.shift(timedelta(seconds=20))
    assert sentence(Task, "a5") == "queued 20 s: waits for tool aider: breaker open, probe in 40 s"
    clock.shift(timedelta(seconds=40))
    breakers.half_open_due()
    Agent("prober").claim()
    assert sentence(Task, "a6").endswith("waits for tool aider: breaker half open, probed by task a5")


def test_explanations_count_the_uses_of_a_limited_tool() -> None:
    limit(1)
    submit(workstream("a", *with_tool("a1", "a2")))
    Agent().claim()
    assert sentence(Task, "a2").endswith("waits for tool aider: 1 of 1 in use")
