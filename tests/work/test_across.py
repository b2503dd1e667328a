"""Dependencies across workstreams, runs and gates, with concurrent transactions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from statecore import transitions
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import GuardFailed
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from tests.races.contest import PATIENCE
from tests.support import world
from tests.support.waiting import has_lock_waiters, until
from tests.work.agents import (
    PHASE,
    Agent,
    gate,
    run_gate,
    states,
    submit,
    task,
    workstream,
)
from tests.work.crowd import in_threads
from tests.work.test_crowd import assert_consistent, crew, finish_call, fire_call, rounds

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_workstreams_that_wait_for_each_others_tasks_continue() -> None:
    def prepare(r: str) -> list[Callable[[], str]]:
        submit(
            workstream(r + "a", r + "x", task(r + "x2", r + "y")),
            workstream(r + "b", r + "y", task(r + "y2", r + "x")),
            id=r,
        )
        return [finish_call(agent, *agent.claim()) for agent in crew(r, 2)]

    for name, answers in rounds(prepare):
        assert answers == ["completed", "completed"]
        assert Task.objects.get(pk=name + "x2").state == "queued"
        assert Task.objects.get(pk=name + "y2").state == "queued"
    assert_consistent()


def create_during(call: Callable[[], str], model: Any = Task, **fields: Any) -> str:
    """Create a row, and commit it once the call on another connection is done or waits for a lock."""
    answers: list[Any] = []
    with transaction.atomic():
        transitions.create(model, id="new", actor=THE_SYSTEM, **fields)
        other = threading.Thread(target=lambda: answers.extend(in_threads(call)))
        other.start()
        until(lambda: answers or has_lock_waiters())
    other.join(PATIENCE)
    (answer,) = answers
    return str(answer)


@pytest.mark.postgres
def test_a_task_created_while_its_dependency_completes_is_queued() -> None:
    submit(workstream("a", task("x", priority=1), "x2"), workstream("b", "y"))
    agent = Agent()
    (held,) = agent.claim()
    assert held.pk == "x"
    create_during(finish_call(agent, held), workstream="b", depends_on=["x"])
    assert states(Task) == {"x": "completed", "x2": "queued", "y": "queued", "new": "queued"}


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("trigger", "exit_code", "links", "state"),
    [("gate_passed", 0, "entry_gates", "queued"), ("gate_failed", 1, "gates", "blocked")],
)
def test_a_task_created_while_its_gate_ends_is_updated(trigger: str, exit_code: int, links: str, state: str) -> None:
    submit(workstream("a", "x"), workstream("b", "y"), gates=[gate("g")])
    transitions.transition(TestGate, "g", "gate_started", actor=THE_SYSTEM)
    create_during(fire_call(TestGate, "g", trigger, exit_code=exit_code), workstream="b", **{links: ["g"]})
    assert Task.objects.get(pk="new").state == state


@pytest.mark.postgres
def test_a_workstream_created_while_its_dependency_completes_is_ready() -> None:
    submit(workstream("a", "x"), id="r1")
    agent = Agent()
    (held,) = agent.claim()
    submit(workstream("b", "y"), id="r2")
    create_during(finish_call(agent, held), Workstream, run="r2", depends_on=["a"])
    assert states(Workstream) == {"a": "completed", "b": "ready", "new": "ready"}


@pytest.mark.postgres
def test_a_gate_created_while_its_dependency_fails_is_blocked() -> None:
    submit(workstream("a", "x"), gates=[gate("g")])
    transitions.transition(TestGate, "g", "gate_started", actor=THE_SYSTEM)
    fields = {"gate_type": "UNIT", "command": "true", "phase": PHASE, "depends_on": ["g"]}
    create_during(fire_call(TestGate, "g", "gate_failed", exit_code=1), TestGate, **fields)
    assert states(TestGate) == {"g": "FAILED", "new": "BLOCKED"}


@pytest.mark.postgres
@pytest.mark.parametrize(("gates", "state"), [([], "completed"), ([gate("g")], "validating")])
def test_a_task_created_while_the_last_task_completes_is_refused(gates: list[Any], state: str) -> None:
    submit(workstream("a", "x", gates=gates))
    agent = Agent()
    (held,) = agent.claim()
    answers: list[Any] = []

    def create() -> str:
        try:
            transitions.create(Task, id="new", actor=THE_SYSTEM, workstream="a")
        except GuardFailed as refusal:
            return refusal.detail
        return "created"

    with transaction.atomic():
        agent.finish(held)
        other = threading.Thread(target=lambda: answers.extend(in_threads(create)))
        other.start()
        until(lambda: answers or has_lock_waiters())
    other.join(PATIENCE)

    assert answers == [f"created: workstream a is {state}: it takes no more tasks"]
    assert states(Task) == {"x": "completed"}
    assert_consistent()


# A row is retried while another row becomes dependent on it


def force_failed(pk: str) -> None:
    """Force the task to failed; it is not critical, so its workstream continues."""
    transitions.override(Task, pk, "failed", actor=world.operator(), reason=world.REASON, category="other")


def retry_call(model: Any, pk: str) -> Callable[[], str]:
    return lambda: transitions.retry(model, pk, actor=THE_SYSTEM).entity.pk


def links_of(pk: str, link: str = "depends_on") -> list[str]:
    return list(getattr(Task.objects.get(pk=pk), link).values_list("pk", flat=True))


@pytest.mark.postgres
def test_a_task_created_while_its_dependency_is_retried_waits_for_the_successor() -> None:
    submit(workstream("a", "a1", "a2"))
    force_failed("a1")

    successor = create_during(retry_call(Task, "a1"), workstream="a", depends_on=["a1"])

    assert links_of("new") == [successor]
    assert Task.objects.get(pk="new").blocked_by == [successor]
    assert_consistent()


@pytest.mark.postgres
@pytest.mark.parametrize("link", ["gates", "entry_gates"])
def test_a_task_created_while_its_gate_is_retried_waits_for_the_successor(link: str) -> None:
    submit(workstream("a", "a1", gates=[gate("g")]))
    run_gate("g", exit_code=1)

    successor = create_during(retry_call(TestGate, "g"), workstream="a", **{link: ["g"]})

    assert links_of("new", link) == [successor]
    assert Task.objects.get(pk="new").blocked_by == [successor]
    assert_consistent()


@pytest.mark.postgres
def test_a_task_created_during_an_uncommitted_retry_waits_for_the_successor() -> None:
    submit(workstream("a", "a1", "a2"))
    force_failed("a1")
    answers: list[Any] = []

    def create() -> str:
        return str(transitions.create(Task, id="new", actor=THE_SYSTEM, workstream="a", depends_on=["a1"]).entity.pk)

    with transaction.atomic():
        successor = retry_call(Task, "a1")()
        other = threading.Thread(target=lambda: answers.extend(in_threads(create)))
        other.start()
        until(lambda: answers or has_lock_waiters())
    other.join(PATIENCE)

    assert answers == ["new"]
    assert links_of("new") == [successor]
    assert_consistent()


@pytest.mark.postgres
def test_a_task_retried_together_with_its_dependency_waits_for_the_successor() -> None:
    submit(workstream("a", "a1", task("a2", "a1"), "a3"))
    force_failed("a1")
    force_failed("a2")
    answers: list[Any] = []
    with transaction.atomic():
        successor = retry_call(Task, "a2")()
        other = threading.Thread(target=lambda: answers.extend(in_threads(retry_call(Task, "a1"))))
        other.start()
        until(lambda: answers or has_lock_waiters())
    other.join(PATIENCE)

    assert links_of(successor) == answers
    assert Task.objects.get(pk=successor).blocked_by == answers
    assert_consistent()


@pytest.mark.postgres
def test_a_task_released_while_a_dependency_is_retried_keeps_the_old_one() -> None:
    submit(workstream("a", task("x", priority=1), "y", task("z", "x", "y")))
    agent = Agent()
    agent.finish(*agent.claim())
    (held,) = agent.claim()
    answers: list[Any] = []
    with transaction.atomic():
        agent.finish(held)
        other = threading.Thread(target=lambda: answers.extend(in_threads(retry_call(Task, "x"))))
        other.start()
        until(lambda: answers or has_lock_waiters())
    other.join(PATIENCE)

    assert set(links_of("z")) == {"x", "y"}
    assert states(Task) == {"x": "completed", "y": "completed", "z": "queued", answers[0]: "queued"}
    assert_consistent()
