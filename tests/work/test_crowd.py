"""Many at the same time: no task is done twice, none is lost, and nobody waits in a circle."""

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

from statecore import door, integrity, scheduling
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.kernel.refusals import Refusal
from statecore.machines.run import FINAL, Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.records import Phase
from statecore.scheduling import timers
from tests.races.contest import operator
from tests.support.waiting import until
from tests.work.agents import PHASE, Agent, gate, plan, states, submit, task, workstream
from tests.work.crowd import in_processes, in_step, in_threads

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 8


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
        luck, done, agent = random.Random(seed), [], Agent.known(name)
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


CROWDS = [
    pytest.param(in_threads, 8, id="threads", marks=pytest.mark.postgres),
    pytest.param(in_processes, 4, id="processes"),
]


@pytest.mark.parametrize(("together", "size"), CROWDS)
def test_a_crowd_of_agents_does_every_task_once(together: Callable[..., list[Any]], size: int, settings: Any) -> None:
    settings.STATECORE_RETRY_BASE_SECONDS = 0.02
    often = {"max_retries": 50}
    submit(
        workstream("a", *(task(f"a{n}", **often) for n in range(15)), task("a15", "a0", "a14", **often)),
        workstream("b", *(task(f"b{n}", f"b{n - 1}" if n % 5 else "a0", **often) for n in range(15))),
        workstream("c", *(task(f"c{n}", **often) for n in range(5)), depends_on=["a", "b"]),
    )
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


# Round by round

Rounds = list[tuple[str, list[Any]]]


def rounds(prepare: Callable[[str], list[Callable[[], Any]]]) -> Rounds:
    """The deeds that `prepare` has for each round are done at once; what was told, by the name of the round."""
    names = [f"{number}-" for number in range(ROUNDS)]
    deeds = [prepare(name) for name in names]
    with nobody_waiting_in_a_circle():
        told = in_step(deeds)
    return list(zip(names, told, strict=True))


def crew(name: str, count: int, **fields: Any) -> list[Agent]:
    """Agents who keep to the workstreams of their round."""
    near = {"workstreams": [name + letter for letter in "abcpqr"]}
    return [Agent(f"{name}w{number}", affinity=near, **fields) for number in range(count)]


def ended(model: Any, name: str) -> set[str]:
    return set(model.objects.filter(pk__startswith=name).values_list("state", flat=True))


# The last two at the same moment


def test_the_last_two_tasks_of_a_workstream_end_it_together() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(workstream(r + "a", r + "x", r + "y"), id=r)
        return [finishing(agent, *agent.claim()) for agent in crew(r, 2)]

    for _name, told in rounds(prepare):
        assert told == ["completed", "completed"]
    assert set(states(Run).values()) == {"succeeded"}
    all_is_well()


def test_the_last_two_workstreams_let_the_next_begin_together() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(
            workstream(r + "a", r + "a1"), workstream(r + "b", r + "b1"),
            workstream(r + "c", r + "c1", depends_on=[r + "a", r + "b"]), id=r,
        )  # fmt: skip
        return [finishing(agent, *agent.claim()) for agent in crew(r, 2)]

    for name, told in rounds(prepare):
        assert told == ["completed", "completed"]
        assert Task.objects.get(pk=name + "c1").state == "queued"
    assert len(Agent().work()) == ROUNDS
    assert set(states(Run).values()) == {"succeeded"}
    all_is_well()


def test_the_last_that_a_task_waits_for_let_it_go_together() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        after = task(r + "z", r + "x", r + "y", entry_gates=[r + "g"])
        submit(workstream(r + "a", r + "x", r + "y", after), id=r, gates=[gate(r + "g")])
        door.transition(TestGate, r + "g", "gate_started", actor=THE_SYSTEM)
        passing = firing(TestGate, r + "g", "gate_passed", exit_code=0)
        return [passing, *(finishing(agent, *agent.claim()) for agent in crew(r, 2))]

    for name, told in rounds(prepare):
        assert told == ["PASSED", "completed", "completed"]
        assert Task.objects.get(pk=name + "z").state == "queued"
    all_is_well()


def test_the_last_report_and_the_last_gate_end_a_task_together() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(workstream(r + "a", task(r + "x", gates=[r + "g"]), gates=[gate(r + "g")]), id=r)
        door.transition(TestGate, r + "g", "gate_started", actor=THE_SYSTEM)
        (agent,) = crew(r, 1)
        return [finishing(agent, *agent.claim()), firing(TestGate, r + "g", "gate_passed", exit_code=0)]

    rounds(prepare)
    assert set(states(Run).values()) == {"succeeded"}
    all_is_well()


# Against each other

OVER = {"completed", "failed", "cancelled"}


def test_a_critical_failure_against_a_completion() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        critical = task(r + "x", is_critical=True, max_retries=0)
        submit(
            workstream(r + "a", critical, r + "y", r + "z", is_critical=True),
            workstream(r + "b", r + "b1", depends_on=[r + "a"]),
            id=r,
        )
        fails, works = crew(r, 2)
        return [failing(fails, *fails.claim()), finishing(works, *works.claim())]

    for name, told in rounds(prepare):
        assert told[0] == "failed"
        assert told[1] in ("completed", "cancelled", "terminal_state"), told
        assert Run.objects.get(pk=name).state == "failed"
        assert ended(Task, name) <= OVER
    all_is_well()


def test_canceling_a_run_against_claims_and_completions() -> None:
    def prepare(r: str) -> list[Callable[[], Any]]:
        submit(workstream(r + "a", *(f"{r}t{n}" for n in range(4))), id=r)
        holds, *others = crew(r, 3)
        report = finishing(holds, *holds.claim())
        return [firing(Run, r, "run_canceled"), report, *(claiming(other) for other in others)]

    for name, told in rounds(prepare):
        assert told[0] == "canceled"
        assert told[1] in ("completed", "cancelled", "terminal_state"), told
        assert ended(Task, name) <= OVER
        assert ended(Workstream, name) == {"cancelled"}
    all_is_well()


def claiming(agent: Agent) -> Callable[[], list[str]]:
    return lambda: [held.pk for held in agent.claim()]


def test_canceling_a_run_against_its_last_completion() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(workstream(r + "a", r + "x"), id=r)
        (agent,) = crew(r, 1)
        return [finishing(agent, *agent.claim()), firing(Run, r, "run_canceled")]

    for name, told in rounds(prepare):
        succeeded = told == ["completed", "terminal_state"]
        assert Run.objects.get(pk=name).state == ("succeeded" if succeeded else "canceled"), told
        assert ended(Task, name) <= OVER
    all_is_well()


def test_a_retry_against_a_completion() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(workstream(r + "a", task(r + "x", max_retries=0), r + "y"), id=r)
        fails, works = crew(r, 2)
        fails.fail(*fails.claim())
        retrying = tried(lambda: door.retry(Task, r + "x", actor=operator()))
        return [retrying, finishing(works, *works.claim())]

    for _name, told in rounds(prepare):
        assert told == ["queued", "completed"]
    assert len(Agent().work()) == ROUNDS
    assert set(states(Run).values()) == {"succeeded"}
    all_is_well()


def test_a_retry_against_the_failure_that_ends_its_workstream() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        critical = task(r + "y", is_critical=True, max_retries=0)
        submit(workstream(r + "a", task(r + "x", max_retries=0), critical), id=r)
        fails, ends = crew(r, 2)
        fails.fail(*fails.claim())
        retrying = tried(lambda: door.retry(Task, r + "x", actor=operator()))
        return [retrying, failing(ends, *ends.claim())]

    for name, told in rounds(prepare):
        assert told[0] in ("queued", "cancelled", "guard_failed"), told
        assert told[1] == "failed"
        assert set(Task.objects.filter(run=name).values_list("state", flat=True)) <= OVER
    all_is_well()


def test_the_same_report_twice_counts_once() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(workstream(r + "a", r + "x"), id=r)
        (agent,) = crew(r, 1)
        (held,) = agent.claim()
        return [finishing(agent, held), finishing(agent, held), failing(agent, held)]

    for name, told in rounds(prepare):
        assert sum(said in ("completed", "retrying") for said in told) == 1, told
        assert Worker.objects.get(pk=name + "w0").current_load == 0
    all_is_well()


def test_the_same_plan_at_once_is_one_plan() -> None:
    Phase.objects.create(id=PHASE)

    def prepare(r: str) -> list[Callable[[], str]]:
        wanted = plan(workstream(r + "a", *(f"{r}t{n}" for n in range(5))), id=r)
        return [tried(lambda: scheduling.submit(wanted, actor=THE_SYSTEM))] * 3

    for _name, told in rounds(prepare):
        assert Counter(told) == {"running": 1, "duplicate_id": 2}
    all_is_well()


def test_runs_that_share_their_workers_are_canceled_at_once() -> None:
    """Each lets go of tasks of the same workers."""

    def prepare(r: str) -> list[Callable[[], str]]:
        runs = [r + letter for letter in "pqr"]
        for run in runs:
            submit(workstream(run, *(f"{run}{n}" for n in range(4))), id=run)
        for agent in crew(r, 4, max_concurrent_tasks=3):
            agent.claim()
        return [firing(Run, run, "run_canceled") for run in runs]

    for _name, told in rounds(prepare):
        assert told == ["canceled"] * 3
    all_is_well()


def test_a_workstream_dies_while_many_claim_its_tasks() -> None:
    def prepare(r: str) -> list[Callable[[], Any]]:
        critical = task(r + "x", is_critical=True, max_retries=0, priority=1)
        submit(workstream(r + "a", critical, *(f"{r}t{n}" for n in range(4))), id=r)
        fails, *others = crew(r, 4)
        return [failing(fails, *fails.claim()), *(claiming(other) for other in others)]

    for name, told in rounds(prepare):
        assert told[0] == "failed"
        assert Workstream.objects.get(pk=name + "a").state == "failed"
        assert ended(Task, name) <= OVER
    all_is_well()


def test_a_worker_is_given_up_while_it_reports() -> None:
    """It reports in time, or its task is retried; never both, and never neither."""

    def prepare(r: str) -> list[Callable[[], str]]:
        with time_machine.travel(now() - timedelta(minutes=10), tick=False) as clock:
            submit(workstream(r + "a", r + "x", r + "y", r + "z"), id=r)
            (agent,) = crew(r, 1, max_concurrent_tasks=3)
            held = agent.claim()
            clock.shift(121)
            door.transition(Worker, agent.name, "health_check_timeout", actor=THE_SYSTEM)
        given_up = firing(Worker, agent.name, "max_timeout_exceeded")
        return [given_up, *(finishing(agent, each) for each in held[:2])]

    for name, told in rounds(prepare):
        assert told[0] == "shutdown"
        assert set(told[1:]) <= {"completed", "lease_lost"}, told
        reported = {said: told[1:].count(said) for said in told[1:]}
        assert Task.objects.filter(run=name, state="completed").count() == reported.get("completed", 0)
        assert Task.objects.filter(run=name, state="retrying").count() == 3 - reported.get("completed", 0)
    assert set(Worker.objects.values_list("state", "current_load")) == {("shutdown", 0)}
    assert [str(finding) for finding in integrity.check_all()] == []
