"""Many at the same time: no task is done twice, none is lost, and nobody waits in a circle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from statecore import door, integrity, scheduling
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import Refusal
from statecore.machines.run import FINAL, Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.scheduling import timers
from tests.races.contest import operator
from tests.support.waiting import until
from tests.work.agents import Agent, gate, states, submit, task, workstream
from tests.work.crowd import at_once, in_processes, in_threads

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 12 if connection.vendor == "postgresql" else 5


def deadlocks() -> int:
    """How many PostgreSQL has seen in this database, once all others have told it and gone."""
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:

        def everybody_else_is_gone() -> bool:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            return bool(cursor.fetchone()[0] == 1)

        until(everybody_else_is_gone)
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


@contextmanager
def nobody_waiting_in_a_circle() -> Iterator[None]:
    before = deadlocks()
    yield
    assert deadlocks() == before, "the door tries again after a deadlock, but the protocol is there to have none"


def all_is_well() -> None:
    assert [str(finding) for finding in integrity.check_all()] == []
    for worker in Worker.objects.all():
        assert (worker.state, worker.current_load) == ("idle", 0)


def tried(deed: Callable[[], Any]) -> Callable[[], str]:
    """What became of it in a word, which can be sent to another process."""

    def run() -> str:
        try:
            told = deed()
        except Refusal as refusal:
            return refusal.code
        return str(told.entity.state)

    return run


def finishing(agent: Agent, held: Task) -> Callable[[], str]:
    return tried(lambda: agent.finish(held))


def failing(agent: Agent, held: Task) -> Callable[[], str]:
    return tried(lambda: agent.fail(held))


def firing(model: Any, pk: str, trigger: str, **params: Any) -> Callable[[], str]:
    actor = operator() if trigger == "run_canceled" else THE_SYSTEM
    return tried(lambda: door.transition(model, pk, trigger, actor=actor, params=params))


# A crowd of agents


def life(name: str, seed: int) -> Callable[[], list[str]]:
    """An agent that works until the run has ended, fails now and then, and says what it has done."""

    def live() -> list[str]:
        luck, done, agent = random.Random(seed), [], Agent.__new__(Agent)
        agent.name, agent.actor = name, scheduling_actor(name)
        while Run.objects.get(pk="r").state not in FINAL:
            held = agent.claim(luck.choice([None, 1, 2]))
            if not held:
                timers.queue_retries()
            for each in held:
                scheduling.beat(name, actor=agent.actor)
                if luck.random() < 0.15:
                    agent.fail(each)
                else:
                    agent.finish(each)
                    done.append(each.pk)
        return done

    return live


def scheduling_actor(name: str) -> Any:
    from statecore.kernel.actors import Actor

    return Actor.agent(name)


CROWDS = [
    pytest.param(in_threads, 8, id="threads", marks=pytest.mark.postgres),
    pytest.param(in_processes, 4, id="processes"),
]


@pytest.mark.parametrize(("together", "size"), CROWDS)
def test_a_crowd_of_agents_does_every_task_once(together: Callable[..., list[Any]], size: int, settings: Any) -> None:
    settings.STATECORE_RETRY_BASE_SECONDS = 0.02
    submit(
        workstream("a", *(task(f"a{n}", max_retries=50) for n in range(20)), task("a-last", "a0", "a19", max_retries=50)),
        workstream("b", *(task(f"b{n}", f"b{n - 1}" if n % 5 else "a0", max_retries=50) for n in range(1, 21)),
                   "b0", task("b5x", max_retries=50)),
        workstream("c", *(task(f"c{n}", max_retries=50) for n in range(10)), depends_on=["a", "b"]),
    )  # fmt: skip
    for number in range(size):
        Agent(f"w{number}", max_concurrent_tasks=1 + number % 3)
    with nobody_waiting_in_a_circle():
        lives = together(*(life(f"w{number}", number) for number in range(size)))
    assert [each for each in lives if isinstance(each, Exception)] == []
    done = Counter(name for each in lives for name in each)
    assert set(done) == set(states(Task))
    assert set(done.values()) == {1}
    completions = Event.objects.filter(trigger="execution_completed").values_list("entity_id", flat=True)
    assert Counter(completions) == done
    assert set(states(Task).values()) == {"completed"}
    assert states(Run) == {"r": "succeeded"}
    all_is_well()


# The last two at the same moment


@pytest.fixture
def agents() -> list[Agent]:
    return [Agent(f"w{number}") for number in range(3)]


def test_the_last_two_tasks_of_a_workstream_end_it_together(agents) -> None:
    with nobody_waiting_in_a_circle():
        for number in range(ROUNDS):
            submit(workstream(f"a{number}", f"x{number}", f"y{number}"), id=f"r{number}")
            told = at_once(*(finishing(agent, *agent.claim()) for agent in agents[:2]))
            assert told == ["completed", "completed"]
            assert Run.objects.get(pk=f"r{number}").state == "succeeded"
    all_is_well()


def test_the_last_two_workstreams_end_their_run_and_let_the_next_begin_together(agents) -> None:
    with nobody_waiting_in_a_circle():
        for number in range(ROUNDS):
            a, b, c = f"a{number}", f"b{number}", f"c{number}"
            submit(
                workstream(a, f"{a}1"), workstream(b, f"{b}1"), workstream(c, f"{c}1", depends_on=[a, b]),
                id=f"r{number}",
            )  # fmt: skip
            assert at_once(*(finishing(agent, *agent.claim()) for agent in agents[:2])) == ["completed"] * 2
            assert agents[2].work() == [f"{c}1"]
    assert set(states(Run).values()) == {"succeeded"}
    all_is_well()


def test_the_last_two_that_a_task_waits_for_let_it_go_together(agents) -> None:
    with nobody_waiting_in_a_circle():
        for number in range(ROUNDS):
            names = [f"x{number}", f"y{number}"]
            submit(
                workstream(f"a{number}", *names, task(f"z{number}", *names, entry_gates=[f"g{number}"])),
                id=f"r{number}", gates=[gate(f"g{number}")],
            )  # fmt: skip
            door.transition(TestGate, f"g{number}", "gate_started", actor=THE_SYSTEM)
            passing = firing(TestGate, f"g{number}", "gate_passed", exit_code=0)
            told = at_once(*(finishing(agent, *agent.claim()) for agent in agents[:2]), passing)
            assert told == ["completed", "completed", "PASSED"]
            assert agents[2].work() == [f"z{number}"]
    assert set(states(Run).values()) == {"succeeded"}
    all_is_well()


def test_the_last_report_and_the_last_gate_end_a_task_together(agents) -> None:
    with nobody_waiting_in_a_circle():
        for number in range(ROUNDS):
            submit(
                workstream(f"a{number}", task(f"x{number}", gates=[f"g{number}"]), gates=[gate(f"g{number}")]),
                id=f"r{number}",
            )  # fmt: skip
            door.transition(TestGate, f"g{number}", "gate_started", actor=THE_SYSTEM)
            passing = firing(TestGate, f"g{number}", "gate_passed", exit_code=0)
            at_once(finishing(agents[0], *agents[0].claim()), passing)
    assert set(states(Run).values()) == {"succeeded"}
    all_is_well()


# Against each other


def test_a_critical_failure_against_a_completion(agents) -> None:
    with nobody_waiting_in_a_circle():
        for number in range(ROUNDS):
            submit(
                workstream(f"a{number}", task(f"x{number}", is_critical=True, max_retries=0), f"y{number}", f"z{number}",
                           is_critical=True),
                workstream(f"b{number}", f"b{number}", depends_on=[f"a{number}"]),
                id=f"r{number}",
            )  # fmt: skip
            fails, works = agents[:2]
            told = at_once(failing(fails, *fails.claim()), finishing(works, *works.claim()))
            assert told[0] == "failed"
            assert told[1] in ("completed", "cancelled", "lease_lost", "terminal_state"), told
            assert Run.objects.get(pk=f"r{number}").state == "failed"
            assert set(Task.objects.filter(run=f"r{number}").values_list("state", flat=True)) <= FINAL_TASKS
    all_is_well()


FINAL_TASKS = {"completed", "failed", "cancelled"}


def test_canceling_a_run_against_claims_and_completions(agents) -> None:
    with nobody_waiting_in_a_circle():
        for number in range(ROUNDS):
            submit(workstream(f"a{number}", *(f"t{number}-{n}" for n in range(4))), id=f"r{number}")
            (held,) = agents[0].claim()
            claims = [tried_claim(agent) for agent in agents[1:]]
            told = at_once(finishing(agents[0], held), firing(Run, f"r{number}", "run_canceled"), *claims)
            assert told[0] in ("completed", "cancelled", "terminal_state"), told
            assert told[1] == "canceled"
            assert set(Task.objects.filter(run=f"r{number}").values_list("state", flat=True)) <= FINAL_TASKS
            assert set(Workstream.objects.filter(run=f"r{number}").values_list("state", flat=True)) == {"cancelled"}
    all_is_well()


def tried_claim(agent: Agent) -> Callable[[], list[str]]:
    return lambda: [held.pk for held in agent.claim()]


def test_canceling_a_run_against_its_last_completion(agents) -> None:
    with nobody_waiting_in_a_circle():
        for number in range(ROUNDS):
            submit(workstream(f"a{number}", f"x{number}"), id=f"r{number}")
            finish = finishing(agents[0], *agents[0].claim())
            told = at_once(finish, firing(Run, f"r{number}", "run_canceled"))
            ended = {"a": "completed", "r": "succeeded"} if told[1] == "terminal_state" else {"r": "canceled"}
            assert Run.objects.get(pk=f"r{number}").state == ended["r"], told
            assert Task.objects.get(pk=f"x{number}").state in FINAL_TASKS
    all_is_well()


def test_a_retry_against_a_completion(agents) -> None:
    with nobody_waiting_in_a_circle():
        for number in range(ROUNDS):
            submit(workstream(f"a{number}", task(f"x{number}", max_retries=0), f"y{number}"), id=f"r{number}")
            fails, works = agents[:2]
            fails.fail(*fails.claim())
            retrying = tried(lambda number=number: door.retry(Task, f"x{number}", actor=operator()))
            told = at_once(retrying, finishing(works, *works.claim()))
            assert told == ["queued", "completed"]
            assert len(agents[2].work()) == 1
            assert Run.objects.get(pk=f"r{number}").state == "succeeded"
    all_is_well()


def test_the_same_report_twice_counts_once(agents) -> None:
    for number in range(ROUNDS):
        submit(workstream(f"a{number}", f"x{number}"), id=f"r{number}")
        (held,) = agents[0].claim()
        told = at_once(finishing(agents[0], held), finishing(agents[0], held), failing(agents[0], held))
        assert sum(said in ("completed", "retrying") for said in told) == 1, told
        assert Worker.objects.get(pk="w0").current_load == 0
        if Task.objects.get(pk=f"x{number}").state == "retrying":
            firing(Run, f"r{number}", "run_canceled")()
    all_is_well()


def test_the_same_plan_twice_is_one_plan() -> None:
    submit(workstream("before", "before"), id="before")

    def again() -> str:
        return submit(workstream("a", *(f"t{n}" for n in range(20)))).state

    told = at_once(*[tried_plan(again)] * 3)
    assert Counter(told) == {"running": 1, "duplicate_id": 2}
    all_is_well()


def tried_plan(deed: Callable[[], str]) -> Callable[[], str]:
    def run() -> str:
        try:
            return deed()
        except Refusal as refusal:
            return refusal.code

    return run


def test_runs_that_share_workers_are_canceled_at_once() -> None:
    """Each lets go of tasks of the same workers."""
    with nobody_waiting_in_a_circle():
        for number in range(ROUNDS):
            names = [f"{number}-{which}" for which in "pqr"]
            for name in names:
                submit(workstream(name, *(f"{name}{n}" for n in range(4))), id=name)
            crew = [Agent(f"w{number}-{n}", max_concurrent_tasks=3) for n in range(4)]
            for agent in crew:
                agent.claim()
            assert at_once(*(firing(Run, name, "run_canceled") for name in names)) == ["canceled"] * 3
    all_is_well()


def test_a_workstream_dies_while_many_claim_its_tasks(agents) -> None:
    with nobody_waiting_in_a_circle():
        for number in range(ROUNDS):
            submit(
                workstream(f"a{number}", task(f"x{number}", is_critical=True, max_retries=0, priority=1),
                           *(f"t{number}-{n}" for n in range(4))),
                id=f"r{number}",
            )  # fmt: skip
            fails = failing(agents[0], *agents[0].claim())
            told = at_once(fails, *(tried_claim(agent) for agent in agents[1:]))
            assert told[0] == "failed"
            assert Workstream.objects.get(pk=f"a{number}").state == "failed"
            assert set(Task.objects.filter(run=f"r{number}").values_list("state", flat=True)) <= FINAL_TASKS
    all_is_well()
