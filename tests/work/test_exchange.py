"""Reporting finished tasks and claiming the next in one transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from statecore import scheduling, transitions
from statecore.journal import Event
from statecore.kernel.refusals import Invalid, NotFound, NotTheHolder
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.scheduling import Report
from tests.races.contest import operator
from tests.work.agents import Agent, states, submit, task, workstream
from tests.work.crowd import at_once
from tests.work.test_crowd import finish_call
from tests.work.test_unobserved_completion import run_beside

pytestmark = pytest.mark.django_db


def triggers_of(worker: str) -> list[str]:
    return list(Event.objects.filter(entity_type="worker", entity_id=worker).values_list("trigger", flat=True))


def test_a_worker_that_continues_stays_busy() -> None:
    submit(workstream("a", "a1", "a2", "a3"))
    agent = Agent()
    held = agent.claim()
    registered = triggers_of("w")
    for _ in range(2):
        exchanged = agent.exchange(*held)
        assert [item.refusal for item in exchanged.reports] == [None]
        held = exchanged.tasks
        assert (len(held), agent.row.state, agent.row.current_load) == (1, "busy", 1)
    assert triggers_of("w") == registered
    assert integrity.check_all() == []

    exchanged = agent.exchange(*held)
    assert exchanged.tasks == []
    assert (agent.row.state, agent.row.current_load) == ("idle", 0)
    assert states(Run) == {"r": "succeeded"}
    assert integrity.check_all() == []


def test_a_task_released_by_the_report_is_claimed_by_the_next_call() -> None:
    submit(workstream("a", "a1", task("a2", "a1")))
    agent = Agent()
    assert agent.exchange(*agent.claim()).tasks == []
    assert [held.pk for held in agent.claim()] == ["a2"]


def test_a_refused_report_does_not_affect_the_others() -> None:
    submit(workstream("a", "a1", "a2", "a3", "a4"))
    agent, other = Agent(max_concurrent_tasks=2), Agent("other")
    first, second = agent.claim()
    (strange,) = other.claim()
    second.attempt += 1
    gone = Task(pk="gone", attempt=1)

    exchanged = agent.exchange(first, strange, gone, second)

    assert [item.refusal and item.refusal.code for item in exchanged.reports] == [
        None,
        "not_the_holder",
        "not_found",
        "lease_lost",
    ]
    assert exchanged.tasks == []  # the second task is still held
    assert (agent.row.state, agent.row.current_load) == ("busy", 1)
    assert states(Task) == {"a1": "completed", "a2": "running", "a3": "running", "a4": "queued"}
    assert integrity.check_all() == []


def test_a_failure_can_be_reported() -> None:
    submit(workstream("a", "a1", "a2"))
    agent = Agent()
    (held,) = agent.claim()
    report = Report(held.pk, "execution_failed", {"attempt": 1, "error": "out of memory"})
    exchanged = scheduling.report_and_claim("w", [report], actor=agent.actor)
    assert [each.pk for each in exchanged.tasks] == ["a2"]
    assert states(Task) == {"a1": "retrying", "a2": "running"}
    assert agent.row.state == "busy"


def test_a_draining_worker_can_still_report() -> None:
    submit(workstream("a", "a1", "a2"))
    agent = Agent()
    held = agent.claim()
    scheduling.drain_worker("w", actor=agent.actor)
    exchanged = agent.exchange(*held)
    assert (exchanged.tasks, states(Task)["a1"]) == ([], "completed")
    assert agent.row.state == "shutdown"


def test_reports_for_another_worker_are_refused() -> None:
    submit(workstream("a", "a1"))
    agent, other = Agent(), Agent("other")
    (held,) = agent.claim()
    report = Report(held.pk, "execution_completed", {"attempt": 1, "exit_code": 0})
    with pytest.raises(NotTheHolder):
        scheduling.report_and_claim("other", [report], actor=agent.actor)
    with pytest.raises(NotFound):
        scheduling.report_and_claim("unknown", [report], actor=agent.actor)
    assert other.row.state == "idle"
    assert states(Task) == {"a1": "running"}


@pytest.mark.parametrize(
    "reports",
    [
        [Report("a1", "user_cancelled")],
        [Report("a1", "execution_completed", {}), Report("a1", "execution_completed", {})],
    ],
)
def test_invalid_reports_are_refused(reports: list[Report]) -> None:
    with pytest.raises(Invalid) as refused:
        scheduling.report_and_claim("w", reports, actor=Agent().actor)
    assert set(refused.value.facts["errors"]) == {"reports"}


def test_an_exchange_counts_as_a_heartbeat() -> None:
    with time_machine.travel(datetime(2026, 1, 5, 8, tzinfo=UTC), tick=False) as clock:
        submit(workstream("a", "a1", "a2", "a3"))
        agent = Agent()
        held = agent.claim()
        before = agent.row.last_heartbeat
        held = agent.exchange(*held).tasks
        assert agent.row.last_heartbeat == before
        clock.shift(30)
        agent.exchange(*held)
        assert (agent.row.last_heartbeat - before).total_seconds() == 30


@pytest.mark.django_db(transaction=True)
def test_concurrent_exchanges_finish_every_task_once() -> None:
    submit(*(workstream(name, *(f"{name}{number}" for number in range(12))) for name in "ab"))

    def work_loop(name: str) -> Any:
        agent = Agent(name)

        def work() -> int:
            held, count = agent.claim(), 0
            while held:
                count += len(held)
                held = agent.exchange(*held).tasks
            return count

        return work

    done = at_once(*(work_loop(f"w{number}") for number in range(4)))
    assert sum(done) == 24
    assert states(Workstream) == {"a": "completed", "b": "completed"}
    assert states(Run) == {"r": "succeeded"}
    assert Event.objects.filter(trigger="execution_completed").count() == 24
    assert integrity.check_all() == []


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_task_started_by_an_exchange_keeps_the_workstream_open() -> None:
    submit(workstream("a", task("a1", priority=2), task("a2", priority=1), "a3"))
    first, second = Agent("first"), Agent("second")
    a1, a2 = first.claim(), second.claim()
    with run_beside(finish_call(second, *a2)) as answers:
        (a3,) = first.exchange(*a1).tasks
    assert answers == ["completed"]
    assert states(Task) == {"a1": "completed", "a2": "completed", "a3": "running"}
    first.finish(a3)
    assert states(Run) == {"r": "succeeded"}


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_an_exchange_is_re_evaluated_if_its_completion_became_the_last() -> None:
    submit(workstream("a", task("a1", priority=2), task("a2", priority=1), "a3"), workstream("b", "b1"))
    first, second = Agent("first"), Agent("second")
    a1, a2 = first.claim(), second.claim()
    with run_beside(lambda: first.exchange(*a1).tasks, finish_call(second, *a2)):
        transitions.override(Task, "a3", "completed", actor=operator(), reason="it is done already", category="other")
    assert states(Task) == {"a1": "completed", "a2": "completed", "a3": "completed", "b1": "running"}
    assert states(Workstream) == {"a": "completed", "b": "executing"}


@pytest.mark.postgres
def test_an_exchange_takes_three_queries() -> None:
    """One query locks the tasks and the worker, one finds the next task and re-checks, one writes all changes."""
    submit(workstream("a", "a1", "a2", "a3", "a4"))
    agent = Agent()
    held = agent.exchange(*agent.claim()).tasks
    with CaptureQueriesContext(connection) as queries:
        assert [item.refusal for item in agent.exchange(*held).reports] == [None]
    assert len([query for query in queries if "SAVEPOINT" not in query["sql"]]) == 3


@pytest.mark.parametrize("odd", ["a\x00b", "", "x" * 65])
def test_a_report_with_an_invalid_task_id_is_refused_alone(odd: str) -> None:
    submit(workstream("a", "a1", "a2"))
    agent = Agent()
    exchanged = agent.exchange(*agent.claim(), Task(pk=odd, attempt=1))
    assert [item.refusal and item.refusal.code for item in exchanged.reports] == [None, "not_found"]
    assert [task.pk for task in exchanged.tasks] == ["a2"]
