"""What waits for something that belongs elsewhere: for tasks of other workstreams, workstreams of other runs, gates."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from statecore import door
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import GuardFailed
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from tests.races.contest import PATIENCE
from tests.support import world
from tests.support.waiting import somebody_waits, until
from tests.work.agents import PHASE, Agent, gate, ran, states, submit, task, workstream
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
    other.join(PATIENCE)
    (answer,) = told
    return str(answer)


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


@pytest.mark.postgres
@pytest.mark.parametrize(("gates", "state"), [([], "completed"), ([gate("g")], "validating")])
def test_a_task_that_is_created_while_the_last_one_completes_is_refused(gates: list[Any], state: str) -> None:
    submit(workstream("a", "x", gates=gates))
    agent = Agent()
    (held,) = agent.claim()
    told: list[Any] = []

    def create() -> str:
        try:
            door.create(Task, id="new", actor=THE_SYSTEM, workstream="a")
        except GuardFailed as refusal:
            return refusal.detail
        return "created"

    with transaction.atomic():
        agent.finish(held)
        other = threading.Thread(target=lambda: told.extend(in_threads(create)))
        other.start()
        until(lambda: told or somebody_waits())
    other.join(PATIENCE)

    assert told == [f"created: workstream a is {state}: it takes no more tasks"]
    assert states(Task) == {"x": "completed"}
    all_is_well()


# What is retried while somebody new comes to wait for it


def failed(pk: str) -> None:
    """Ended without being critical to anything: its workstream goes on."""
    door.override(Task, pk, "failed", actor=world.operator(), reason=world.REASON, category="other")


def retrying(model: Any, pk: str) -> Callable[[], str]:
    return lambda: door.retry(model, pk, actor=THE_SYSTEM).entity.pk


def links_of(pk: str, link: str = "depends_on") -> list[str]:
    return list(getattr(Task.objects.get(pk=pk), link).values_list("pk", flat=True))


@pytest.mark.postgres
def test_who_is_created_while_its_dependency_is_retried_waits_for_the_successor() -> None:
    submit(workstream("a", "a1", "a2"))
    failed("a1")

    heir = born_while(retrying(Task, "a1"), workstream="a", depends_on=["a1"])

    assert links_of("new") == [heir]
    assert Task.objects.get(pk="new").blocked_by == [heir]
    all_is_well()


@pytest.mark.postgres
@pytest.mark.parametrize("link", ["gates", "entry_gates"])
def test_who_is_created_while_its_gate_is_run_again_waits_for_the_successor(link: str) -> None:
    submit(workstream("a", "a1", gates=[gate("g")]))
    ran("g", exit_code=1)

    heir = born_while(retrying(TestGate, "g"), workstream="a", **{link: ["g"]})

    assert links_of("new", link) == [heir]
    assert Task.objects.get(pk="new").blocked_by == [heir]
    all_is_well()


@pytest.mark.postgres
def test_who_is_created_after_a_retry_that_is_not_committed_yet_waits_for_the_successor() -> None:
    submit(workstream("a", "a1", "a2"))
    failed("a1")
    told: list[Any] = []

    def create() -> str:
        return str(door.create(Task, id="new", actor=THE_SYSTEM, workstream="a", depends_on=["a1"]).entity.pk)

    with transaction.atomic():
        heir = retrying(Task, "a1")()
        other = threading.Thread(target=lambda: told.extend(in_threads(create)))
        other.start()
        until(lambda: told or somebody_waits())
    other.join(PATIENCE)

    assert told == ["new"]
    assert links_of("new") == [heir]
    all_is_well()


@pytest.mark.postgres
def test_who_is_retried_while_its_dependency_is_retried_waits_for_the_successor() -> None:
    submit(workstream("a", "a1", task("a2", "a1"), "a3"))
    failed("a1")
    failed("a2")
    told: list[Any] = []
    with transaction.atomic():
        heir = retrying(Task, "a2")()
        other = threading.Thread(target=lambda: told.extend(in_threads(retrying(Task, "a1"))))
        other.start()
        until(lambda: told or somebody_waits())
    other.join(PATIENCE)

    assert links_of(heir) == told
    assert Task.objects.get(pk=heir).blocked_by == told
    all_is_well()


@pytest.mark.postgres
def test_who_is_let_go_while_one_of_its_dependencies_is_retried_keeps_the_old_one() -> None:
    submit(workstream("a", task("x", priority=1), "y", task("z", "x", "y")))
    agent = Agent()
    agent.finish(*agent.claim())
    (held,) = agent.claim()
    told: list[Any] = []
    with transaction.atomic():
        agent.finish(held)
        other = threading.Thread(target=lambda: told.extend(in_threads(retrying(Task, "x"))))
        other.start()
        until(lambda: told or somebody_waits())
    other.join(PATIENCE)

    assert set(links_of("z")) == {"x", "y"}
    assert states(Task) == {"x": "completed", "y": "completed", "z": "queued", told[0]: "queued"}
    all_is_well()
