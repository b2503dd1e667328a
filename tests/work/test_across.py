"""What waits for something that belongs elsewhere: for tasks of other workstreams, workstreams of other runs, gates."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from statecore import door
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from tests.support.waiting import until
from tests.work.agents import PHASE, Agent, gate, states, submit, task, workstream
from tests.work.crowd import in_threads
from tests.work.test_crowd import all_is_well, crew, finishing, firing, rounds

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_workstreams_that_wait_for_each_others_tasks_go_on_together() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(
            workstream(r + "a", r + "x", task(r + "x2", r + "y")),
            workstream(r + "b", r + "y", task(r + "y2", r + "x")),
            id=r,
        )
        return [finishing(agent, *agent.claim()) for agent in crew(r, 2)]

    for name, told in rounds(prepare):
        assert told == ["completed", "completed"]
        assert Task.objects.get(pk=name + "x2").state == "queued"
        assert Task.objects.get(pk=name + "y2").state == "queued"
    all_is_well()


def born_while(deed: Callable[[], str], model: Any = Task, **fields: Any) -> str:
    """Let one be created and committed only when the deed, on another connection, is done or waits for it."""
    told: list[Any] = []
    with transaction.atomic():
        door.create(model, id="new", actor=THE_SYSTEM, **fields)
        other = threading.Thread(target=lambda: told.extend(in_threads(deed)))
        other.start()
        until(lambda: told or somebody_waits())
    other.join()
    (answer,) = told
    return str(answer)


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])


@pytest.mark.postgres
def test_a_task_that_is_created_while_what_it_waits_for_completes_elsewhere_is_not_forgotten() -> None:
    submit(workstream("a", task("x", priority=1), "x2"), workstream("b", "y"))
    agent = Agent()
    (held,) = agent.claim()
    assert held.pk == "x"
    born_while(finishing(agent, held), workstream="b", depends_on=["x"])
    assert states(Task) == {"x": "completed", "x2": "queued", "y": "queued", "new": "queued"}


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("trigger", "exit_code", "links", "state"),
    [("gate_passed", 0, "entry_gates", "queued"), ("gate_failed", 1, "gates", "blocked")],
)
def test_a_task_that_is_created_while_its_gate_is_decided_is_not_forgotten(
    trigger: str, exit_code: int, links: str, state: str
) -> None:
    submit(workstream("a", "x"), workstream("b", "y"), gates=[gate("g")])
    door.transition(TestGate, "g", "gate_started", actor=THE_SYSTEM)
    born_while(firing(TestGate, "g", trigger, exit_code=exit_code), workstream="b", **{links: ["g"]})
    assert Task.objects.get(pk="new").state == state


@pytest.mark.postgres
def test_a_workstream_that_is_created_while_what_it_waits_for_completes_in_another_run_is_not_forgotten() -> None:
    submit(workstream("a", "x"), id="r1")
    agent = Agent()
    (held,) = agent.claim()
    submit(workstream("b", "y"), id="r2")
    born_while(finishing(agent, held), Workstream, run="r2", depends_on=["a"])
    assert states(Workstream) == {"a": "completed", "b": "ready", "new": "ready"}


@pytest.mark.postgres
def test_a_gate_that_is_created_while_the_gate_it_waits_for_fails_is_blocked() -> None:
    submit(workstream("a", "x"), gates=[gate("g")])
    door.transition(TestGate, "g", "gate_started", actor=THE_SYSTEM)
    fields = {"gate_type": "UNIT", "command": "true", "phase": PHASE, "depends_on": ["g"]}
    born_while(firing(TestGate, "g", "gate_failed", exit_code=1), TestGate, **fields)
    assert states(TestGate) == {"g": "FAILED", "new": "BLOCKED"}
