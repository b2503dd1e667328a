"""Unobserved completions run concurrently; the last one sees all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction

from statecore import scheduling, transitions
from statecore.journal import Event
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.transitions.unit_of_work import UnitOfWork, run_in_transaction
from tests.races.contest import PATIENCE, operator
from tests.support.waiting import count_lock_waiters, until
from tests.work.agents import Agent, states, submit, task, workstream
from tests.work.crowd import in_threads
from tests.work.test_crowd import finish_call

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


@contextmanager
def run_beside(*calls: Callable[[], Any]) -> Iterator[list[Any]]:
    """Start calls on other connections before this transaction commits; yield the list of their answers."""
    answers: list[Any] = []
    other = threading.Thread(target=lambda: answers.extend(in_threads(*calls)))
    with transaction.atomic():
        yield answers
        other.start()
        until(lambda: answers or count_lock_waiters() >= len(calls))
    other.join(PATIENCE)


def claim_each(*names: str) -> list[tuple[Agent, Task]]:
    """Claim each task with a separate agent, in the order of priority."""
    agents = [Agent(f"w-{name}") for name in names]
    found = [(agent, agent.claim()[0]) for agent in agents]
    assert [held.pk for _agent, held in found] == list(names)
    return found


def claim_and_finish_call(agent: Agent) -> Callable[[], str]:
    return lambda: finish_call(agent, *agent.claim())()


def test_an_unobserved_completion_does_not_wait() -> None:
    submit(workstream("a", task("a1", priority=2), task("a2", priority=1), "a3"))
    (first, a1), (second, a2) = claim_each("a1", "a2")
    with transaction.atomic():
        first.finish(a1)
        assert in_threads(finish_call(second, a2)) == ["completed"]
        assert states(Task)["a1"] == "completed"
    assert states(Task) == {"a1": "completed", "a2": "completed", "a3": "queued"}


def test_the_last_completion_waits_for_unobserved_ones() -> None:
    submit(workstream("a", task("a1", priority=1), "a2"))
    ((first, a1),) = claim_each("a1")
    with run_beside(claim_and_finish_call(Agent("w-a2"))) as answers:
        first.finish(a1)
    assert answers == ["completed"]
    assert states(Run) == {"r": "succeeded"}
    completion = Event.objects.get(entity_id="a", trigger="all_tasks_completed")
    assert Event.objects.get(pk=completion.caused_by).entity_id == "a2"


def test_completions_that_became_the_last_are_re_evaluated() -> None:
    submit(workstream("a", task("a1", priority=2), task("a2", priority=1), "a3"))
    with run_beside(*[finish_call(agent, held) for agent, held in claim_each("a1", "a2")]) as answers:
        transitions.override(Task, "a3", "completed", actor=operator(), reason="it is done already", category="other")
    assert set(answers) <= {"completed", "validating"}  # `validating` if it was re-evaluated after its commit
    assert states(Task) == {"a1": "completed", "a2": "completed", "a3": "completed"}
    assert states(Run) == {"r": "succeeded"}


def force_validating() -> None:
    transitions.override(Task, "a1", "validating", actor=operator(), reason="it was done by hand", category="other")


def claim_and_finish_at_once() -> None:
    agent = Agent("w-a1", affinity={"workstreams": ["a"]}, capabilities=["by hand"])

    def step(work: UnitOfWork) -> None:
        (claimed,) = scheduling.claim(agent.name, actor=agent.actor, within=work)
        agent.finish(claimed, within=work)

    run_in_transaction(step)


@pytest.mark.parametrize("end_unobserved", [force_validating, claim_and_finish_at_once])
def test_a_task_that_never_started_does_not_make_completions_unobserved(end_unobserved: Callable[[], None]) -> None:
    by_hand = task("a1", priority=1, required_capabilities=["by hand"])
    submit(workstream("a", task("a0", priority=2), by_hand, "a2"))
    ((first, a0),) = claim_each("a0")
    first.finish(a0)
    with run_beside(claim_and_finish_call(Agent("w-a2"))):
        end_unobserved()
    assert states(Task) == {"a0": "completed", "a1": "completed", "a2": "completed"}
    assert states(Run) == {"r": "succeeded"}
