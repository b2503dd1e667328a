"""Tasks whose completion nobody notices complete beside each other; the last one sees them all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction

from statecore import door
from statecore.door.perform import perform
from statecore.journal import Event
from statecore.machines.run import Run
from statecore.machines.task import Task
from tests.races.contest import PATIENCE, operator
from tests.support.waiting import how_many_wait, until
from tests.work.agents import Agent, states, submit, task, workstream
from tests.work.crowd import in_threads
from tests.work.test_crowd import finishing

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


@contextmanager
def beside(*deeds: Callable[[], Any]) -> Iterator[list[Any]]:
    """Let deeds begin on other connections while what is done here is not committed; their answers, once they come."""
    told: list[Any] = []
    other = threading.Thread(target=lambda: told.extend(in_threads(*deeds)))
    with transaction.atomic():
        yield told
        other.start()
        until(lambda: told or how_many_wait() >= len(deeds))
    other.join(PATIENCE)


def claimed(*names: str) -> list[tuple[Agent, Task]]:
    """An agent each, in the order of their priority."""
    agents = [Agent(f"w-{name}") for name in names]
    found = [(agent, agent.claim()[0]) for agent in agents]
    assert [held.pk for _agent, held in found] == list(names)
    return found


def claiming_and_finishing(agent: Agent) -> Callable[[], str]:
    return lambda: finishing(agent, *agent.claim())()


def test_who_completes_unnoticed_waits_for_nobody() -> None:
    submit(workstream("a", task("a1", priority=2), task("a2", priority=1), "a3"))
    (first, a1), (second, a2) = claimed("a1", "a2")
    with transaction.atomic():
        first.finish(a1)
        assert in_threads(finishing(second, a2)) == ["completed"]
        assert states(Task)["a1"] == "completed"
    assert states(Task) == {"a1": "completed", "a2": "completed", "a3": "queued"}


def test_the_last_one_waits_for_those_that_completed_unnoticed() -> None:
    submit(workstream("a", task("a1", priority=1), "a2"))
    ((first, a1),) = claimed("a1")
    with beside(claiming_and_finishing(Agent("w-a2"))) as told:
        first.finish(a1)
    assert told == ["completed"]
    assert states(Run) == {"r": "succeeded"}
    ended = Event.objects.get(entity_id="a", trigger="all_tasks_completed")
    assert Event.objects.get(pk=ended.caused_by).entity_id == "a2"


def test_who_was_unnoticed_only_until_they_came_to_it_are_looked_at_once_more() -> None:
    submit(workstream("a", task("a1", priority=2), task("a2", priority=1), "a3"))
    with beside(*[finishing(agent, held) for agent, held in claimed("a1", "a2")]) as told:
        door.override(Task, "a3", "completed", actor=operator(), reason="it is done already", category="other")
    assert set(told) <= {"completed", "validating"}  # the latter if it was looked at after its commit
    assert states(Task) == {"a1": "completed", "a2": "completed", "a3": "completed"}
    assert states(Run) == {"r": "succeeded"}


def force_validating() -> None:
    door.override(Task, "a1", "validating", actor=operator(), reason="it was done by hand", category="other")


def claim_and_finish_at_once() -> None:
    perform(claiming_and_finishing(Agent("w-a1", affinity={"workstreams": ["a"]}, capabilities=["by hand"])))


@pytest.mark.parametrize("ends_unseen", [force_validating, claim_and_finish_at_once])
def test_who_was_never_seen_started_is_nobodys_reason_to_go_unnoticed(ends_unseen: Callable[[], None]) -> None:
    by_hand = task("a1", priority=1, required_capabilities=["by hand"])
    submit(workstream("a", task("a0", priority=2), by_hand, "a2"))
    ((first, a0),) = claimed("a0")
    first.finish(a0)
    with beside(claiming_and_finishing(Agent("w-a2"))):
        ends_unseen()
    assert states(Task) == {"a0": "completed", "a1": "completed", "a2": "completed"}
    assert states(Run) == {"r": "succeeded"}
