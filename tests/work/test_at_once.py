"""Transactions below, at and above the batch size for writes have the same effects."""

from __future__ import annotations

import pytest

from statecore import scheduling, transitions
from statecore.journal import Event
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.operations import integrity
from tests.support.world import operator
from tests.work.agents import (
    Agent,
    gate,
    run_gate,
    states,
    submit,
    task,
    workstream,
)

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 13])
def test_tasks_are_claimed_and_finished_together(count: int) -> None:
    """Half of the tasks have a gate; one task waits for all, and one in another workstream for the first."""
    names = [f"t{n:02}" for n in range(count)]
    listed = [task(name, gates=["g"]) if n % 2 else task(name) for n, name in enumerate(names)]
    submit(
        workstream("a", *listed, task("last", *names), gates=[gate("g")]),
        workstream("b", task("other", names[0])),
    )
    agent = Agent(max_concurrent_tasks=count)
    assert sorted(each.pk for each in agent.claim()) == names
    assert (agent.row.state, agent.row.current_load) == ("busy", count)

    report = {"exit_code": 0, "attempt": 1}
    items = transitions.transition_many(Task, names, "execution_completed", actor=agent.actor, params=report)

    assert [item.refusal for item in items] == [None] * count
    assert [states(Task)[name] for name in names] == ["validating" if n % 2 else "completed" for n in range(count)]
    assert (agent.row.state, agent.row.current_load) == ("idle", 0)
    assert states(Task)["other"] == "queued"
    run_gate("g")
    assert states(Task)["last"] == "queued"
    assert set(agent.work()) == {"last", "other"}
    assert states(Run) == {"r": "succeeded"}
    assert [str(finding) for finding in integrity.check_all()] == []


@pytest.mark.parametrize("count", [1, 5, 6, 7, 13])
def test_a_dry_run_of_a_cancellation_changes_nothing(count: int) -> None:
    submit(workstream("a", *(f"t{n:02}" for n in range(count))))
    agent = Agent(max_concurrent_tasks=count)
    agent.claim()
    before, events = states(Task), Event.objects.count()

    preview = transitions.transition(Run, "r", "run_canceled", actor=operator(), dry_run=True)

    assert {entry.to_state for entry in preview.caused} == {"cancelled", "idle"}
    assert (states(Task), Event.objects.count(), agent.row.current_load) == (before, events, count)
    assert scheduling.record_heartbeat("w", actor=agent.actor)["commands"] == []
    transitions.transition(Run, "r", "run_canceled", actor=operator())
    assert set(states(Task).values()) == {"cancelled"}
    assert len(scheduling.record_heartbeat("w", actor=agent.actor)["commands"]) == count
    assert [str(finding) for finding in integrity.check_all()] == []
