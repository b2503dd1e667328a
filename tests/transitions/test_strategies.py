"""Each optimisation of the write path gives the same rows and events as the plain path.

A scenario runs twice with the same ids: once as shipped, and once with every optimisation switched off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from statecore import transitions
from statecore.journal import Event
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.pipeline_job import PipelineJob
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.reactions import unobserved_completion
from statecore.transitions import optimistic, unit_of_work
from tests.support import world
from tests.work.agents import Agent, submit, task, workstream

pytestmark = pytest.mark.django_db(transaction=True)

EVENT_FIELDS = (
    "entity_type",
    "entity_id",
    "sequence",
    "kind",
    "trigger",
    "from_state",
    "to_state",
    "actor",
    "severity",
)


class Rollback(Exception):
    pass


def run_and_roll_back(scenario: Callable[[], None]) -> tuple[list[Any], list[Any]]:
    """Returns the rows and events that a scenario leaves behind, and removes them."""
    found: list[Any] = []
    try:
        with transaction.atomic():
            scenario()
            found += [snapshot_rows(), snapshot_events()]
            raise Rollback
    except Rollback:
        rows, events = found
        return rows, events


def snapshot_rows() -> list[Any]:
    """Returns every entity; of times and of the chain's hash only whether they are set."""
    return [
        (
            flow.entity_type,
            {name: bool(value) if _is_volatile(name) else value for name, value in row.as_dict().items()},
        )
        for flow in registry.flows()
        for row in flow.model.objects.order_by("pk")
    ]


def _is_volatile(name: str) -> bool:
    return name.endswith("_at") or name in ("chain_head", "last_heartbeat")


def snapshot_events() -> list[Any]:
    """Returns the events of each entity in order, with the event that caused each."""
    events = list(Event.objects.order_by("entity_type", "entity_id", "sequence"))
    names = {event.event_id: (event.entity_id, event.sequence) for event in events}
    return [
        (*(getattr(event, name) for name in EVENT_FIELDS), names.get(event.as_dict()["caused_by"])) for event in events
    ]


def use_plain_path(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(optimistic, "attempt", lambda model, entity_id, trigger, change: None)
    patch.setattr(unobserved_completion, "complete", lambda work, changes: False)
    patch.setattr(unobserved_completion, "may_share_lock", lambda work: False)
    patch.setattr(unit_of_work, "MAX_COMBINED", 0)


def report_one_by_one() -> None:
    submit(workstream("a", task("a1", priority=3), task("a2", priority=2), task("a3", depends_on=["a1"])))
    agent = Agent("w1")
    for _ in range(3):
        (claimed,) = agent.claim()
        agent.finish(claimed)


def report_and_claim() -> None:
    submit(workstream("a", *(task(f"a{number}", priority=9 - number) for number in range(5))))
    agent = Agent("w1")
    done = agent.claim()
    while done:
        done = agent.exchange(*done).tasks


def fail_a_critical_task() -> None:
    submit(workstream("a", task("a1", priority=2, max_retries=0, is_critical=True), "a2"), workstream("b", "b1"))
    agent = Agent("w1")
    (claimed,) = agent.claim()
    agent.fail(claimed)


def lose_a_worker_and_force_a_state() -> None:
    submit(workstream("a", "a1", "a2"))
    agent = Agent("w1")
    agent.claim()
    given = {"actor": world.operator(), "reason": "the host was lost", "category": "crashed_worker"}
    transitions.override(Worker, "w1", "shutdown", **given)
    transitions.override(Task, "a2", "completed", **given)


def run_a_pipeline() -> None:
    job = world.created("PipelineJob", id="job")
    for trigger in ("analyze", "map", "validate"):
        transitions.transition(PipelineJob, job.pk, trigger, actor=THE_SYSTEM)


@pytest.mark.parametrize(
    "scenario",
    [report_one_by_one, report_and_claim, fail_a_critical_task, lose_a_worker_and_force_a_state, run_a_pipeline],
    ids=lambda scenario: scenario.__name__,
)
def test_plain_and_optimised_paths_give_the_same_rows_and_events(
    scenario: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    optimised = run_and_roll_back(scenario)
    with monkeypatch.context() as patch:
        use_plain_path(patch)
        plain = run_and_roll_back(scenario)

    assert optimised[1] == plain[1]
    assert optimised[0] == plain[0]
    assert len(plain[1]) > 3


@pytest.mark.postgres
def test_an_optimistic_transition_gives_the_same_row_and_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside a transaction, where the optimistic path applies; the two jobs differ by their ids only."""
    monkeypatch.setattr(optimistic, "_querying", set())
    jobs = [world.created("PipelineJob"), world.created("PipelineJob")]
    transitions.transition(PipelineJob, jobs[0].pk, "analyze", actor=THE_SYSTEM)
    assert (PipelineJob, "analyze") not in optimistic._querying
    monkeypatch.setattr(optimistic, "attempt", lambda model, entity_id, trigger, change: None)
    transitions.transition(PipelineJob, jobs[1].pk, "analyze", actor=THE_SYSTEM)

    first, second = ({**row, "id": ""} for entity_type, row in snapshot_rows() if entity_type == "pipeline_job")
    assert first == second
    events = [event[2:-1] for event in snapshot_events()]
    assert events[:2] == events[2:]
