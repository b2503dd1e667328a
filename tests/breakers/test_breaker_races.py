"""Concurrent callers of a breaker: one gets the probe, and no failure is lost."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial

import pytest

from statecore.kernel.actors import Actor
from statecore.kernel.clock import now
from statecore.machines.circuit_breaker import CircuitBreaker
from statecore.machines.task import Task
from statecore.scheduling import breakers
from tests.races.records import assert_consistent, path
from tests.support import world
from tests.support.together import run_concurrently
from tests.work.agents import Agent, submit, task, workstream

pytestmark = pytest.mark.django_db(transaction=True)
CROWD, EACH = 8, 5


def callers():
    return [Actor.agent(f"agent-{number}") for number in range(CROWD)]


def acquires(actor):
    return lambda: breakers.acquire("aider", actor=actor)


def fails(actor, times=1):
    breakers.acquire("aider", actor=actor)

    def deed():
        for _ in range(times):
            breakers.report("aider", success=False, error="it crashed", actor=actor)

    return deed


def cooled_down():
    world.created("CircuitBreaker", id="aider", failure_threshold=1)
    fails(callers()[0])()
    world.touched(CircuitBreaker.objects.get(), opened_at=now() - timedelta(minutes=2))


def test_concurrent_first_uses_create_one_breaker() -> None:
    answers = run_concurrently([acquires(actor) for actor in callers()])
    assert not any(getattr(answer, "is_probe", True) for answer in answers)
    assert path(assert_consistent(CircuitBreaker.objects.get())) == [("created", "CLOSED")]


@pytest.mark.parametrize("number", range(5))
def test_exactly_one_of_many_callers_gets_the_probe(number: int) -> None:
    cooled_down()
    answers = run_concurrently([acquires(actor) for actor in callers()])
    assert Counter(getattr(answer, "code", "probe") for answer in answers) == {"probe": 1, "breaker_open": CROWD - 1}
    assert path(assert_consistent(CircuitBreaker.objects.get()))[-1] == ("cooldown_expires", "HALF_OPEN")


def test_no_failure_is_lost() -> None:
    world.created("CircuitBreaker", id="aider", failure_threshold=1000)
    assert set(run_concurrently([fails(actor, EACH) for actor in callers()])) == {None}
    assert CircuitBreaker.objects.get().failure_count == CROWD * EACH


def test_the_last_of_many_failures_opens_it_once() -> None:
    world.created("CircuitBreaker", id="aider", failure_threshold=CROWD * EACH)
    assert set(run_concurrently([fails(actor, EACH) for actor in callers()])) == {None}
    breaker = assert_consistent(CircuitBreaker.objects.get())
    assert path(breaker) == [("created", "CLOSED"), ("failure_threshold_exceeded", "OPEN")]
    assert breaker.failure_count == CROWD * EACH


def test_two_sweeps_at_once_half_open_it_once() -> None:
    cooled_down()
    assert sum(run_concurrently([breakers.half_open_due] * 4)) == 1
    assert path(assert_consistent(CircuitBreaker.objects.get()))[-1] == ("cooldown_expires", "HALF_OPEN")


def crowd_of_agents() -> list[Agent]:
    submit(workstream("a", *(task(f"a{number}", tool="aider") for number in range(CROWD))))
    return [Agent(f"agent-{number}") for number in range(CROWD)]


def count_running(agents: list[Agent]) -> int:
    answers = run_concurrently([agent.claim for agent in agents])
    running = Task.objects.filter(state="running").count()
    assert sum(len(answer) for answer in answers) == running
    return running


def test_concurrent_claims_do_not_exceed_the_limit_of_a_tool() -> None:
    world.created("CircuitBreaker", id="aider", concurrency_limit=3)
    assert count_running(crowd_of_agents()) == 3


def test_concurrent_claims_let_one_probe_through() -> None:
    cooled_down()
    breakers.half_open_due()
    assert count_running(crowd_of_agents()) == 1
    assert CircuitBreaker.objects.get().probe_by.startswith("task:")


def test_concurrent_first_claims_create_one_breaker() -> None:
    assert count_running(crowd_of_agents()) == CROWD
    assert path(assert_consistent(CircuitBreaker.objects.get())) == [("created", "CLOSED")]


def test_concurrent_failures_of_tasks_are_all_counted() -> None:
    world.created("CircuitBreaker", id="aider", failure_threshold=1000)
    agents = crowd_of_agents()
    held = {agent: agent.claim()[0] for agent in agents}
    run_concurrently([partial(agent.fail, held[agent]) for agent in agents])
    assert CircuitBreaker.objects.get().failure_count == CROWD
