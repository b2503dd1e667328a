"""Concurrent agents: no task runs twice, none is lost, and there are no deadlocks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection

from statecore import scheduling, transitions
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.kernel.refusals import Refusal
from statecore.machines.run import FINAL, Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.records import Phase
from statecore.scheduling import timers
from tests.races.contest import operator
from tests.support.waiting import until
from tests.work.agents import (
    PHASE,
    Agent,
    gate,
    plan,
    states,
    submit,
    task,
    workstream,
)
from tests.work.crowd import in_processes, in_step, in_threads

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 8


def deadlocks() -> int:
    """Return PostgreSQL's deadlock count for this database, after all other connections have closed."""
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:

        def all_others_have_closed() -> bool:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            return bool(cursor.fetchone()[0] == 1)

        until(all_others_have_closed)
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


@contextmanager
def no_deadlocks() -> Iterator[None]:
    before = deadlocks()
    yield
    assert deadlocks() == before, "a deadlock occurred; the lock order should rule them out"


def assert_consistent() -> None:
    assert [str(finding) for finding in integrity.check_all()] == []
    for worker in Worker.objects.all():
        assert (worker.state, worker.current_load) == ("idle", 0)


def as_answer(call: Callable[[], Any]) -> Callable[[], str]:
    """Return a call that yields the resulting state or the refusal's code, which can be pickled."""

    def run() -> str:
        try:
            answers = call()
        except Refusal as refusal:
            return refusal.code
        return str(answers.entity.state)

    return run


def finish_call(agent: Agent, held: Task) -> Callable[[], str]:
    return as_answer(lambda: agent.finish(held))


def fail_call(agent: Agent, held: Task) -> Callable[[], str]:
    return as_answer(lambda: agent.fail(held))


def fire_call(model: Any, pk: str, trigger: str, **params: Any) -> Callable[[], str]:
    actor = operator() if trigger == "run_canceled" else THE_SYSTEM
    return as_answer(lambda: transitions.transition(model, pk, trigger, actor=actor, params=params))


# A crowd of agents


def agent_loop(name: str, seed: int) -> Callable[[], list[str]]:
    """Return an agent loop that works until the run has ended, fails now and then, and returns finished tasks."""

    def run() -> list[str]:
        luck, done, agent = random.Random(seed), [], Agent.registered(name)
        while Run.objects.get(pk="r").state not in FINAL:
            held = agent.claim(luck.choice([None, 1, 2]))
            if not held:
                timers.queue_retries()
            for each in held:
                scheduling.record_heartbeat(name, actor=agent.actor)
                if luck.random() < 0.15:
                    agent.fail(each)
                else:
                    agent.finish(each)
                    done.append(each.pk)
        return done

    return run


CROWDS = [
    pytest.param(in_threads, 8, id="threads", marks=pytest.mark.postgres),
    pytest.param(in_processes, 4, id="processes"),
]


@pytest.mark.parametrize(("together", "size"), CROWDS)
def test_concurrent_agents_finish_every_task_once(together: Callable[..., list[Any]], size: int, settings: Any) -> None:
    settings.STATECORE_RETRY_BASE_SECONDS = 0.02
    often = {"max_retries": 50}
    submit(
        workstream("a", *(task(f"a{n}", **often) for n in range(15)), task("a15", "a0", "a14", **often)),
        workstream("b", *(task(f"b{n}", f"b{n - 1}" if n % 5 else "a0", **often) for n in range(15))),
        workstream("c", *(task(f"c{n}", **often) for n in range(5)), depends_on=["a", "b"]),
    )
    for number in range(size):
        Agent(f"w{number}", max_concurrent_tasks=1 + number % 3)
    with no_deadlocks():
        results = together(*(agent_loop(f"w{number}", number) for number in range(size)))
    assert [each for each in results if isinstance(each, Exception)] == []
    done = Counter(name for each in results for name in each)
    assert set(done) == set(states(Task))
    assert set(done.values()) == {1}
    completions = Event.objects.filter(trigger="execution_completed").values_list("entity_id", flat=True)
    assert Counter(completions) == done
    assert set(states(Task).values()) == {"completed"}
    assert states(Run) == {"r": "succeeded"}
    assert_consistent()


# Round by round

Rounds = list[tuple[str, list[Any]]]


def rounds(prepare: Callable[[str], list[Callable[[], Any]]]) -> Rounds:
    """Run the calls that `prepare` returns for each round concurrently; return the answers by round."""
    names = [f"{number}-" for number in range(ROUNDS)]
    calls = [prepare(name) for name in names]
    with no_deadlocks():
        answers = in_step(calls)
    return list(zip(names, answers, strict=True))


def crew(name: str, count: int, **fields: Any) -> list[Agent]:
    """Register agents with an affinity to the workstreams of their round."""
    near = {"workstreams": [name + letter for letter in "abcpqr"]}
    return [Agent(f"{name}w{number}", affinity=near, **fields) for number in range(count)]


def final_states(model: Any, name: str) -> set[str]:
    return set(model.objects.filter(pk__startswith=name).values_list("state", flat=True))


# The last two parts end at the same moment


def test_the_last_two_tasks_end_their_workstream_concurrently() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(workstream(r + "a", r + "x", r + "y"), id=r)
        return [finish_call(agent, *agent.claim()) for agent in crew(r, 2)]

    for _name, answers in rounds(prepare):
        assert answers == ["completed", "completed"]
    assert set(states(Run).values()) == {"succeeded"}
    assert_consistent()


def test_the_last_two_workstreams_release_the_next_concurrently() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(
            workstream(r + "a", r + "a1"), workstream(r + "b", r + "b1"),
            workstream(r + "c", r + "c1", depends_on=[r + "a", r + "b"]), id=r,
        )  # fmt: skip
        return [finish_call(agent, *agent.claim()) for agent in crew(r, 2)]

    for name, answers in rounds(prepare):
        assert answers == ["completed", "completed"]
        assert Task.objects.get(pk=name + "c1").state == "queued"
    assert len(Agent().work()) == ROUNDS
    assert set(states(Run).values()) == {"succeeded"}
    assert_consistent()


def test_the_last_dependencies_release_a_task_concurrently() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        after = task(r + "z", r + "x", r + "y", entry_gates=[r + "g"])
        submit(workstream(r + "a", r + "x", r + "y", after), id=r, gates=[gate(r + "g")])
        transitions.transition(TestGate, r + "g", "gate_started", actor=THE_SYSTEM)
        passing = fire_call(TestGate, r + "g", "gate_passed", exit_code=0)
        return [passing, *(finish_call(agent, *agent.claim()) for agent in crew(r, 2))]

    for name, answers in rounds(prepare):
        assert answers == ["PASSED", "completed", "completed"]
        assert Task.objects.get(pk=name + "z").state == "queued"
    assert_consistent()


def test_the_report_and_the_gate_of_a_task_complete_it_concurrently() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(workstream(r + "a", task(r + "x", gates=[r + "g"]), gates=[gate(r + "g")]), id=r)
        transitions.transition(TestGate, r + "g", "gate_started", actor=THE_SYSTEM)
        (agent,) = crew(r, 1)
        return [finish_call(agent, *agent.claim()), fire_call(TestGate, r + "g", "gate_passed", exit_code=0)]

    rounds(prepare)
    assert set(states(Run).values()) == {"succeeded"}
    assert_consistent()


# Conflicting calls

FINAL_STATES = {"completed", "failed", "cancelled"}


def test_a_critical_failure_races_with_a_completion() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        critical = task(r + "x", is_critical=True, max_retries=0)
        submit(
            workstream(r + "a", critical, r + "y", r + "z", is_critical=True),
            workstream(r + "b", r + "b1", depends_on=[r + "a"]),
            id=r,
        )
        fails, works = crew(r, 2)
        return [fail_call(fails, *fails.claim()), finish_call(works, *works.claim())]

    for name, answers in rounds(prepare):
        assert answers[0] == "failed"
        assert answers[1] in ("completed", "cancelled", "lease_lost"), answers
        assert Run.objects.get(pk=name).state == "failed"
        assert final_states(Task, name) <= FINAL_STATES
    assert_consistent()


def test_canceling_a_run_races_with_claims_and_completions() -> None:
    def prepare(r: str) -> list[Callable[[], Any]]:
        submit(workstream(r + "a", *(f"{r}t{n}" for n in range(4))), id=r)
        holds, *others = crew(r, 3)
        report = finish_call(holds, *holds.claim())
        return [fire_call(Run, r, "run_canceled"), report, *(claim_call(other) for other in others)]

    for name, answers in rounds(prepare):
        assert answers[0] == "canceled"
        assert answers[1] in ("completed", "cancelled", "lease_lost"), answers
        assert final_states(Task, name) <= FINAL_STATES
        assert final_states(Workstream, name) == {"cancelled"}
    assert_consistent()


def claim_call(agent: Agent) -> Callable[[], list[str]]:
    return lambda: [held.pk for held in agent.claim()]


def test_canceling_a_run_races_with_its_last_completion() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(workstream(r + "a", r + "x"), id=r)
        (agent,) = crew(r, 1)
        return [finish_call(agent, *agent.claim()), fire_call(Run, r, "run_canceled")]

    for name, answers in rounds(prepare):
        succeeded = answers == ["completed", "terminal_state"]
        assert Run.objects.get(pk=name).state == ("succeeded" if succeeded else "canceled"), answers
        assert final_states(Task, name) <= FINAL_STATES
    assert_consistent()


def test_a_retry_races_with_a_completion() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(workstream(r + "a", task(r + "x", max_retries=0), r + "y"), id=r)
        fails, works = crew(r, 2)
        fails.fail(*fails.claim())
        retrying = as_answer(lambda: transitions.retry(Task, r + "x", actor=operator()))
        return [retrying, finish_call(works, *works.claim())]

    for _name, answers in rounds(prepare):
        assert answers == ["queued", "completed"]
    assert len(Agent().work()) == ROUNDS
    assert set(states(Run).values()) == {"succeeded"}
    assert_consistent()


def test_a_retry_races_with_the_failure_of_its_workstream() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        critical = task(r + "y", is_critical=True, max_retries=0)
        submit(workstream(r + "a", task(r + "x", max_retries=0), critical), id=r)
        fails, ends = crew(r, 2)
        fails.fail(*fails.claim())
        retrying = as_answer(lambda: transitions.retry(Task, r + "x", actor=operator()))
        return [retrying, fail_call(ends, *ends.claim())]

    for name, answers in rounds(prepare):
        assert answers[0] in ("queued", "cancelled", "guard_failed"), answers
        assert answers[1] == "failed"
        assert set(Task.objects.filter(run=name).values_list("state", flat=True)) <= FINAL_STATES
    assert_consistent()


def test_the_same_report_twice_counts_once() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(workstream(r + "a", r + "x"), id=r)
        (agent,) = crew(r, 1)
        (held,) = agent.claim()
        return [finish_call(agent, held), finish_call(agent, held), fail_call(agent, held)]

    for name, answers in rounds(prepare):
        assert sum(each in ("completed", "retrying") for each in answers) == 1, answers
        assert Worker.objects.get(pk=name + "w0").current_load == 0
    assert_consistent()


def test_the_same_plan_submitted_concurrently_is_stored_once() -> None:
    Phase.objects.create(id=PHASE)

    def prepare(r: str) -> list[Callable[[], str]]:
        wanted = plan(workstream(r + "a", *(f"{r}t{n}" for n in range(5))), id=r)
        return [as_answer(lambda: scheduling.submit_plan(wanted, actor=THE_SYSTEM))] * 3

    for _name, answers in rounds(prepare):
        assert Counter(answers) == {"running": 1, "duplicate_id": 2}
    assert_consistent()


def test_runs_that_share_workers_are_canceled_concurrently() -> None:
    """Each cancellation releases tasks of the same workers."""

    def prepare(r: str) -> list[Callable[[], str]]:
        runs = [r + letter for letter in "pqr"]
        for run in runs:
            submit(workstream(run, *(f"{run}{n}" for n in range(4))), id=run)
        for agent in crew(r, 4, max_concurrent_tasks=3):
            agent.claim()
        return [fire_call(Run, run, "run_canceled") for run in runs]

    for _name, answers in rounds(prepare):
        assert answers == ["canceled"] * 3
    assert_consistent()


def test_a_workstream_fails_while_agents_claim_its_tasks() -> None:
    def prepare(r: str) -> list[Callable[[], Any]]:
        critical = task(r + "x", is_critical=True, max_retries=0, priority=1)
        submit(workstream(r + "a", critical, *(f"{r}t{n}" for n in range(4))), id=r)
        fails, *others = crew(r, 4)
        return [fail_call(fails, *fails.claim()), *(claim_call(other) for other in others)]

    for name, answers in rounds(prepare):
        assert answers[0] == "failed"
        assert Workstream.objects.get(pk=name + "a").state == "failed"
        assert final_states(Task, name) <= FINAL_STATES
    assert_consistent()


def test_a_worker_is_shut_down_while_it_reports() -> None:
    """Each task is either reported in time or retried, never both and never neither."""

    def prepare(r: str) -> list[Callable[[], str]]:
        with time_machine.travel(now() - timedelta(minutes=10), tick=False) as clock:
            submit(workstream(r + "a", r + "x", r + "y", r + "z"), id=r)
            (agent,) = crew(r, 1, max_concurrent_tasks=3)
            held = agent.claim()
            clock.shift(121)
            transitions.transition(Worker, agent.name, "health_check_timeout", actor=THE_SYSTEM)
        given_up = fire_call(Worker, agent.name, "max_timeout_exceeded")
        return [given_up, *(finish_call(agent, each) for each in held[:2])]

    for name, answers in rounds(prepare):
        assert answers[0] == "shutdown"
        assert set(answers[1:]) <= {"completed", "lease_lost"}, answers
        reported = {each: answers[1:].count(each) for each in answers[1:]}
        assert Task.objects.filter(run=name, state="completed").count() == reported.get("completed", 0)
        assert Task.objects.filter(run=name, state="retrying").count() == 3 - reported.get("completed", 0)
    assert set(Worker.objects.values_list("state", "current_load")) == {("shutdown", 0)}
    assert [str(finding) for finding in integrity.check_all()] == []
