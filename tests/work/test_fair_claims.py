"""Claims take turns between runs, by weight, and keep to the limit of each run."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import time_machine
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from statecore import transitions
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import GuardFailed, Invalid
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.reactions import run_queues
from statecore.read_models.stuck import explain
from statecore.records import RunQueue
from statecore.scheduling import holds, timers
from tests.properties.support import rolled_back
from tests.races.contest import operator
from tests.support.plans import reads_per_statement
from tests.work.agents import Agent, states, submit, task, workstream
from tests.work.crowd import at_once

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


def submit_run(name: str, count: int, **more: Any) -> Run:
    tasks = [task(f"{name}:{number:03}", priority=more.get("priority", 0)) for number in range(count)]
    more.pop("priority", None)
    return submit(workstream(f"{name}-w", *tasks), id=name, **more)


def claim_runs(agent: Agent, count: int) -> list[str]:
    """Claim this many tasks, one at a time, each with the report of the one before, and return their runs."""
    found = []
    held = list(Task.objects.filter(worker=agent.name))
    for _ in range(count):
        held = agent.exchange(*held, most=1).tasks
        found += [each.run_id for each in held]
    return found


def test_a_long_queue_does_not_delay_the_first_task_of_another_run() -> None:
    """Nor do claims in the same moment, which all read the same order."""
    submit_run("big", 60)
    agent = Agent()
    claim_runs(agent, 20)
    submit_run("small", 2)
    assert claim_runs(agent, 1) == ["small"]


def test_new_runs_do_not_keep_a_long_queue_waiting() -> None:
    submit_run("big", 60)
    agent = Agent()
    order = []
    for number in range(12):
        submit_run(f"small-{number}", 1)
        order += claim_runs(agent, 1)
    assert order.count("big") >= 3


def test_runs_take_turns() -> None:
    for name in "abc":
        submit_run(name, 10)
    agent = Agent(max_concurrent_tasks=100)
    order = claim_runs(agent, 30)
    assert all(Counter(order[start : start + 3]) == {"a": 1, "b": 1, "c": 1} for start in range(0, 30, 3))


def test_a_higher_priority_goes_first() -> None:
    submit_run("low", 3)
    submit_run("high", 2, priority=5)
    agent = Agent(max_concurrent_tasks=100)
    assert claim_runs(agent, 5) == ["high", "high", "low", "low", "low"]


def test_a_run_of_weight_three_starts_three_tasks_in_turn_with_one() -> None:
    submit_run("heavy", 30, weight=3)
    submit_run("light", 30)
    order = claim_runs(Agent(max_concurrent_tasks=100), 40)
    assert abs(Counter(order)["light"] - 10) <= 1
    assert "light light" not in " ".join(order)


def test_a_claim_of_several_tasks_takes_from_each_run() -> None:
    submit_run("a", 20)
    submit_run("b", 20)
    submit_run("top", 3, priority=1)
    held = Agent(max_concurrent_tasks=100).claim(11)
    assert Counter(each.run_id for each in held) == {"top": 3, "a": 4, "b": 4}


def test_a_run_that_was_held_back_does_not_catch_up_at_the_cost_of_the_others() -> None:
    submit_run("held", 20)
    submit_run("other", 40)
    hold = holds.place("run:held", reason="wait", actor=operator())
    agent = Agent()
    assert set(claim_runs(agent, 20)) == {"other"}
    holds.release(hold.pk, reason="go", actor=operator())
    order = claim_runs(agent, 10)
    assert abs(Counter(order)["held"] - 5) <= 1


def test_a_retried_task_keeps_to_the_turn_of_its_run() -> None:
    submit_run("a", 1)
    agent = Agent(max_concurrent_tasks=100)
    (held,) = agent.claim(1)
    submit_run("b", 10)
    agent.fail(held)
    claim_runs(agent, 3)
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=1), tick=False):
        assert timers.queue_retries() == 1
        assert "a" in claim_runs(agent, 2)


def test_unblocked_tasks_are_found() -> None:
    submit(workstream("w", "first", *(task(f"then-{number}", "first") for number in range(12))))
    agent = Agent(max_concurrent_tasks=100)
    (held,) = agent.claim()
    run_queues.tend()
    assert RunQueue.objects.get().is_waiting is False
    agent.finish(held)
    assert len(agent.claim()) == 12


def test_a_new_priority_of_a_queued_task_is_found() -> None:
    submit_run("r", 3)
    transitions.edit(Task, "r:002", {"priority": 7}, actor=operator())
    (held,) = Agent().claim()
    assert held.pk == "r:002"


def test_queues_of_the_previous_version_are_opened_and_those_of_ended_runs_deleted() -> None:
    submit_run("r", 2)
    RunQueue.objects.all().delete()
    agent = Agent()
    assert agent.claim() == []
    assert run_queues.tend() == 1
    agent.work()
    assert states(Run) == {"r": "succeeded"}
    run_queues.tend()
    assert not RunQueue.objects.exists()


# Shares

RUNS = st.lists(st.integers(1, 5), min_size=2, max_size=5)
STEPS = st.lists(st.tuples(st.sampled_from(("claim", "claim", "claim", "several", "tend", "lose", "join")),
                           st.integers(1, 4)), min_size=10, max_size=40)  # fmt: skip


@settings(max_examples=5, deadline=None)
@given(weights=RUNS, steps=STEPS)
def test_no_run_waits_longer_than_its_share(weights: list[int], steps: list[tuple[str, int]]) -> None:
    """Between two starts of a backlogged run, each other run starts as often as its weight allows, and once more."""
    with rolled_back():
        shares = {f"r{number}": weight for number, weight in enumerate(weights)}
        for name, weight in shares.items():
            submit_run(name, 60, weight=weight)
        agent = Agent(max_concurrent_tasks=4)
        order: list[str] = []
        held: list[Task] = []
        for step, count in steps:
            if step == "tend":
                run_queues.tend()
            elif step == "join":
                name = f"late-{len(shares)}"
                shares[name] = count
                submit_run(name, 60, weight=count)
                order.append(f"joined {name}")
            elif step == "lose":
                for each in held:
                    agent.fail(each)
                held = []
            else:
                held = agent.exchange(*held, most=1 if step == "claim" else count).tasks
                order += [each.run_id for each in held]
    check_shares(order, shares)


def check_shares(order: list[str], shares: dict[str, int]) -> None:
    for name, weight in shares.items():
        since: Counter[str] = Counter()
        for each in order[order.index(f"joined {name}") + 1 if f"joined {name}" in order else 0 :]:
            if each == name:
                since.clear()
            elif not each.startswith("joined"):
                since[each] += 1
                # A claim of several takes equal parts, at most four.
                assert since[each] <= shares[each] / weight + shares[each] + 4, (name, order)


# Limits


def test_no_more_tasks_of_a_run_run_at_once_than_its_limit() -> None:
    submit_run("r", 10, max_parallel=4)
    agent = Agent(max_concurrent_tasks=100)
    held = agent.claim()
    assert len(held) == 4
    assert Agent("other").claim() == []
    assert explain(Task, "r:009").sentence.endswith("run r: 4 of 4 tasks run at once")
    params = {"worker": agent.name}
    with pytest.raises(GuardFailed, match="4 of 4 tasks run at once"):
        transitions.transition(Task, "r:009", "worker_started", actor=agent.actor, params=params)
    assert len(agent.exchange(*held).tasks) == 4
    transitions.edit(Run, "r", {"max_parallel": 5}, actor=operator())
    assert len(Agent("third").claim()) == 1


def test_a_full_run_does_not_keep_others_back() -> None:
    submit_run("full", 10, max_parallel=1)
    submit_run("other", 10)
    agent = Agent(max_concurrent_tasks=100)
    assert Counter(each.run_id for each in agent.claim(8)) == {"full": 1, "other": 7}


@pytest.mark.django_db(transaction=True)
def test_concurrent_claims_keep_to_the_limit() -> None:
    submit_run("r", 30, max_parallel=3)
    for least, names in ((1, "abcd"), (3, "efgh")):
        workers = [Agent(name, max_concurrent_tasks=5).name for name in names]
        at_once(*(partial(claim_as, worker) for worker in workers))
        assert least <= Task.objects.filter(state="running").count() <= 3


def claim_as(name: str) -> int:
    return len(Agent.registered(name).claim())


# Times


def test_a_run_is_not_started_before_its_time() -> None:
    with time_machine.travel(NOON, tick=False) as clock:
        submit_run("r", 1, not_before="2026-11-18T15:00:00+01:00")
        assert states(Run) == {"r": "pending"}
        with pytest.raises(GuardFailed, match="waits until 2026-11-18 14:00:00 UTC"):
            transitions.transition(Run, "r", "run_started", actor=THE_SYSTEM)
        assert "waits until 2026-11-18 14:00:00 UTC" in explain(Run, "r").sentence
        assert timers.start_due_runs() == 0
        clock.move_to(NOON + timedelta(hours=2))
        assert timers.start_due_runs() == 1
        assert len(Agent().claim()) == 1


def test_a_task_is_not_queued_before_its_time() -> None:
    with time_machine.travel(NOON, tick=False) as clock:
        submit(workstream("w", "now", task("later", not_before="2026-11-18T13:00:00Z")))
        assert states(Task) == {"now": "queued", "later": "pending"}
        assert "waits until 2026-11-18 13:00:00 UTC" in explain(Task, "later").sentence
        assert timers.queue_due_tasks() == 0
        clock.move_to(NOON + timedelta(hours=1))
        timers.queue_due_tasks()
        assert states(Task) == {"now": "queued", "later": "queued"}


@pytest.mark.parametrize("given", ["tomorrow", "2026-11-18T13:00:00", 5, True])
def test_a_time_needs_a_zone(given: Any) -> None:
    with pytest.raises(Invalid):
        submit(workstream("w", "t"), not_before=given)


# Cost


def test_a_claim_reads_neither_the_tasks_of_full_runs_nor_those_of_other_turns() -> None:
    submit_run("full", 100, max_parallel=1)
    submit_run("other", 100)
    Agent("first").claim()
    Agent("second").claim()
    assert Task.objects.filter(run="full", state="running").exists()
    found = reads_per_statement(Agent("third").claim)
    search = max(reads for reads, sql in found if "runqueue" in sql)
    assert search < (60 if connection.vendor == "postgresql" else 3_000)
