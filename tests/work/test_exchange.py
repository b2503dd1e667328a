"""Reporting what is done and claiming what comes next, in one transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from statecore import door, integrity, scheduling
from statecore.journal import Event
from statecore.kernel.refusals import Invalid, NotFound, PermissionDenied
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.workstream import Workstream
from statecore.scheduling import Report
from tests.races.contest import operator
from tests.work.agents import Agent, states, submit, task, workstream
from tests.work.crowd import at_once
from tests.work.test_crowd import finishing
from tests.work.test_quiet import beside

pytestmark = pytest.mark.django_db


def moves_of(worker: str) -> list[str]:
    return list(Event.objects.filter(entity_type="worker", entity_id=worker).values_list("trigger", flat=True))


def test_a_worker_that_goes_on_stays_busy() -> None:
    submit(workstream("a", "a1", "a2", "a3"))
    agent = Agent()
    held = agent.claim()
    registered = moves_of("w")
    for _ in range(2):
        made = agent.exchange(*held)
        assert [item.refusal for item in made.reports] == [None]
        held = made.tasks
        assert (len(held), agent.row.state, agent.row.current_load) == (1, "busy", 1)
    assert moves_of("w") == registered
    assert integrity.check_all() == []

    made = agent.exchange(*held)
    assert made.tasks == []
    assert (agent.row.state, agent.row.current_load) == ("idle", 0)
    assert states(Run) == {"r": "succeeded"}
    assert integrity.check_all() == []


def test_what_only_the_report_makes_ready_is_claimed_by_the_next_call() -> None:
    submit(workstream("a", "a1", task("a2", "a1")))
    agent = Agent()
    assert agent.exchange(*agent.claim()).tasks == []
    assert [held.pk for held in agent.claim()] == ["a2"]


def test_a_report_is_refused_by_itself() -> None:
    submit(workstream("a", "a1", "a2", "a3", "a4"))
    agent, other = Agent(max_concurrent_tasks=2), Agent("other")
    first, second = agent.claim()
    (strange,) = other.claim()
    second.attempt += 1
    gone = Task(pk="gone", attempt=1)

    made = agent.exchange(first, strange, gone, second)

    assert [item.refusal and item.refusal.code for item in made.reports] == [
        None,
        "permission_denied",
        "not_found",
        "lease_lost",
    ]
    assert made.tasks == []  # it is busy with the second
    assert (agent.row.state, agent.row.current_load) == ("busy", 1)
    assert states(Task) == {"a1": "completed", "a2": "running", "a3": "running", "a4": "queued"}
    assert integrity.check_all() == []


def test_a_failure_is_reported_as_well() -> None:
    submit(workstream("a", "a1", "a2"))
    agent = Agent()
    (held,) = agent.claim()
    report = Report(held.pk, "execution_failed", {"attempt": 1, "error": "out of memory"})
    made = scheduling.report_and_claim("w", [report], actor=agent.actor)
    assert [each.pk for each in made.tasks] == ["a2"]
    assert states(Task) == {"a1": "retrying", "a2": "running"}
    assert agent.row.state == "busy"


def test_who_may_claim_no_more_still_reports() -> None:
    submit(workstream("a", "a1", "a2"))
    agent = Agent()
    held = agent.claim()
    scheduling.drain("w", actor=agent.actor)
    made = agent.exchange(*held)
    assert (made.tasks, states(Task)["a1"]) == ([], "completed")
    assert agent.row.state == "shutdown"


def test_reports_for_a_worker_that_is_not_ones_own_change_nothing() -> None:
    submit(workstream("a", "a1"))
    agent, other = Agent(), Agent("other")
    (held,) = agent.claim()
    report = Report(held.pk, "execution_completed", {"attempt": 1, "exit_code": 0})
    with pytest.raises(PermissionDenied):
        scheduling.report_and_claim("other", [report], actor=agent.actor)
    with pytest.raises(NotFound):
        scheduling.report_and_claim("nobody", [report], actor=agent.actor)
    assert other.row.state == "idle"
    assert states(Task) == {"a1": "running"}


@pytest.mark.parametrize(
    "reports",
    [
        [Report("a1", "user_cancelled")],
        [Report("a1", "execution_completed", {}), Report("a1", "execution_completed", {})],
    ],
)
def test_what_is_no_report_is_refused(reports: list[Report]) -> None:
    with pytest.raises(Invalid) as refused:
        scheduling.report_and_claim("w", reports, actor=Agent().actor)
    assert set(refused.value.facts["errors"]) == {"reports"}


def test_it_is_a_sign_of_life() -> None:
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
def test_a_crowd_does_everything_once_and_the_workstreams_end() -> None:
    submit(*(workstream(name, *(f"{name}{number}" for number in range(12))) for name in "ab"))

    def works(name: str) -> Any:
        agent = Agent(name)

        def work() -> int:
            held, count = agent.claim(), 0
            while held:
                count += len(held)
                held = agent.exchange(*held).tasks
            return count

        return work

    done = at_once(*(works(f"w{number}") for number in range(4)))
    assert sum(done) == 24
    assert states(Workstream) == {"a": "completed", "b": "completed"}
    assert states(Run) == {"r": "succeeded"}
    assert Event.objects.filter(trigger="execution_completed").count() == 24
    assert integrity.check_all() == []


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_one_that_is_started_with_a_report_is_still_to_come_for_those_beside() -> None:
    submit(workstream("a", task("a1", priority=2), task("a2", priority=1), "a3"))
    first, second = Agent("first"), Agent("second")
    a1, a2 = first.claim(), second.claim()
    with beside(finishing(second, *a2)) as told:
        (a3,) = first.exchange(*a1).tasks
    assert told == ["completed"]
    assert states(Task) == {"a1": "completed", "a2": "completed", "a3": "running"}
    first.finish(a3)
    assert states(Run) == {"r": "succeeded"}


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_who_is_unnoticed_only_until_it_comes_to_it_is_looked_at_once_more() -> None:
    submit(workstream("a", task("a1", priority=2), task("a2", priority=1), "a3"), workstream("b", "b1"))
    first, second = Agent("first"), Agent("second")
    a1, a2 = first.claim(), second.claim()
    with beside(lambda: first.exchange(*a1).tasks, finishing(second, *a2)):
        door.override(Task, "a3", "completed", actor=operator(), reason="it is done already", category="other")
    assert states(Task) == {"a1": "completed", "a2": "completed", "a3": "completed", "b1": "running"}
    assert states(Workstream) == {"a": "completed", "b": "executing"}


@pytest.mark.postgres
def test_an_exchange_is_two_questions_and_one_answer() -> None:
    """The tasks, the worker and the quiet lock; the next task and the second look; all that has changed."""
    submit(workstream("a", "a1", "a2", "a3", "a4"))
    agent = Agent()
    held = agent.exchange(*agent.claim()).tasks
    with CaptureQueriesContext(connection) as queries:
        assert [item.refusal for item in agent.exchange(*held).reports] == [None]
    assert len([query for query in queries if "SAVEPOINT" not in query["sql"]]) == 3


@pytest.mark.parametrize("odd", ["a\x00b", "", "x" * 65])
def test_a_report_of_what_cannot_be_a_task_is_refused_by_itself(odd: str) -> None:
    submit(workstream("a", "a1", "a2"))
    agent = Agent()
    made = agent.exchange(*agent.claim(), Task(pk=odd, attempt=1))
    assert [item.refusal and item.refusal.code for item in made.reports] == [None, "not_found"]
    assert [task.pk for task in made.tasks] == ["a2"]
