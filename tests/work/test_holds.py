"""Holds: no new claim within their scope, running work continues, and placing and ending are recorded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from statecore import scheduling, transitions
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import GuardFailed, Invalid, NotFound, PermissionDenied, TerminalState
from statecore.machines.task import Task
from statecore.operations import integrity
from statecore.read_models import board
from statecore.read_models.stuck import explain, list_stuck
from statecore.records.hold import Hold
from statecore.scheduling import holds
from statecore.scheduling.matching import find_workers_to_wake
from tests.doctor.results import get_problem, passes
from tests.support import world
from tests.work.agents import PHASE, Agent, states, submit, task, workstream

pytestmark = pytest.mark.django_db
START = datetime(2026, 1, 5, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> Iterator[time_machine.Coordinates]:
    with time_machine.travel(START, tick=False) as travelled:
        yield travelled


def place(scope: str, **more: Any) -> Hold:
    return holds.place(scope, reason="the disk is full", actor=world.operator(), **more)


def release(hold: Hold) -> Hold:
    return holds.release(hold.pk, reason="space again", actor=world.operator())


@pytest.mark.parametrize("scope", ["everything", f"phase:{PHASE}", "run:r", "capability:git", "tool:aider"])
def test_a_held_task_is_not_claimed_until_the_release(scope: str) -> None:
    submit(workstream("w", task("t", required_capabilities=["git"], tool="aider")))
    agent = Agent(capabilities=["git", "helm"])
    hold = place(scope)
    assert agent.claim() == []
    assert find_workers_to_wake(["w"]) == []
    release(hold)
    assert find_workers_to_wake(["w"]) == ["w"]
    assert [claimed.pk for claimed in agent.claim()] == ["t"]


@pytest.mark.parametrize("scope", ["phase:PH-other", "run:other", "capability:helm", "tool:other"])
def test_a_hold_leaves_other_work_alone(scope: str) -> None:
    world.Phase.objects.create(id="PH-other")
    submit(workstream("w2", "t2"), id="other", start=False)
    submit(workstream("w", task("t", required_capabilities=["git"])))
    place(scope)
    assert [claimed.pk for claimed in Agent(capabilities=["git", "helm"]).claim()] == ["t"]


def test_an_agent_that_names_the_task_is_refused_with_the_hold() -> None:
    submit(workstream("w", "t"))
    agent = Agent()
    place("everything")
    with pytest.raises(GuardFailed) as refusal:
        transitions.transition(Task, "t", "worker_started", actor=agent.actor, params={"worker": agent.name})
    assert refusal.value.facts["unmet"][0]["code"] == "held"


def test_running_work_continues_and_reports() -> None:
    submit(workstream("w", "t1", "t2"))
    agent = Agent()
    (running,) = agent.claim()
    place("everything")
    assert scheduling.record_heartbeat(agent.name, actor=agent.actor)
    exchanged = agent.exchange(running)
    assert exchanged.reports[0].outcome
    assert exchanged.tasks == []
    assert states(Task)[running.pk] == "completed"


def test_an_expired_hold_ends_without_the_sweep_which_records_it(clock: time_machine.Coordinates) -> None:
    submit(workstream("w", "t"))
    agent = Agent()
    hold = place("everything", expires_at=START + HOUR)
    clock.shift(HOUR - timedelta(seconds=1))
    assert agent.claim() == []
    clock.shift(timedelta(seconds=1))
    assert [claimed.pk for claimed in agent.claim()] == ["t"]
    assert [holds.end_expired(), holds.end_expired()] == [1, 0]
    hold.refresh_from_db()
    assert (str(hold.status), hold.ended_at, hold.released_by) == ("expired", START + HOUR, "")
    assert _triggers(hold) == ["hold_placed", "hold_expired"]


def test_the_journal_has_who_held_what_until_when_and_why() -> None:
    submit(workstream("w", "t"))
    hold = place("run:r")
    release(hold)
    placed, released = (event.as_dict() for event in _events(hold))
    assert (placed["operator"], placed["reason"]) == ("ada", "the disk is full")
    assert placed["metadata"] == {"scope": "run:r", "expires_at": None}
    assert (released["trigger"], released["reason"]) == ("hold_released", "space again")
    assert [str(finding) for finding in integrity.check_all()] == []


def test_a_hold_ends_once() -> None:
    hold = place("everything")
    release(hold)
    with pytest.raises(TerminalState, match="it was released"):
        release(hold)
    with pytest.raises(NotFound):
        holds.release("hold_none", reason="because", actor=world.operator())


@pytest.mark.parametrize("scope", ["", "all", "everything:r", "run", "run:", "run:none", "phase:none", "tool:"])
def test_a_scope_that_means_nothing_is_refused(scope: str) -> None:
    with pytest.raises(Invalid) as refusal:
        place(scope)
    assert refusal.value.facts["errors"].keys() == {"scope"}


def test_a_hold_needs_a_reason_and_a_future(clock: time_machine.Coordinates) -> None:
    with pytest.raises(Invalid) as refusal:
        holds.place("everything", reason=" ", actor=world.operator(), expires_at=START)
    assert refusal.value.facts["errors"].keys() == {"reason", "expires_at"}


def test_only_operators_with_the_permission_place_and_release() -> None:
    hold = place("everything")
    for actor in (world.AGENT, THE_SYSTEM, world.operator_with("view_hold")):
        with pytest.raises(PermissionDenied):
            holds.place("everything", reason="because", actor=actor)
        with pytest.raises(PermissionDenied):
            holds.release(hold.pk, reason="because", actor=actor)
    may = world.operator_with("add_hold", "change_hold", name="cy")
    holds.release(holds.place("everything", reason="because", actor=may).pk, reason="done", actor=may)


def test_explain_names_the_hold(clock: time_machine.Coordinates) -> None:
    submit(workstream("w", "t"))
    Agent()
    hold = place("everything", expires_at=START + HOUR)
    clock.shift(timedelta(minutes=30))
    sentence = "queued 30 min: held: everything, by ada, until 2026-01-05 09:00:00 UTC"
    assert explain(Task, "t").sentence == sentence
    release(hold)
    assert "held" not in explain(Task, "t").sentence


def test_held_tasks_are_not_stuck(clock: time_machine.Coordinates) -> None:
    submit(workstream("w", task("t", required_capabilities=["git"])))
    hold = place("capability:git")
    clock.shift(timedelta(minutes=11))
    assert [item.entity.pk for item in list_stuck(10)] == []
    release(hold)
    assert [item.entity.pk for item in list_stuck(10)] == ["t"]


def test_stats_and_doctor_know_active_holds() -> None:
    assert board.get_stats()["holds"] == []
    assert passes("holds")
    submit(workstream("w", "t"))
    hold = place("run:r")
    (shown,) = board.get_stats()["holds"]
    assert (shown["id"], shown["scope"], shown["created_by"], shown["expires_at"]) == (hold.pk, "run:r", "ada", None)
    assert board.get_stats(["task"])["holds"] == []
    assert get_problem("holds")[1].endswith("held: run r, by ada, until it is released")


def _events(hold: Hold) -> list[Event]:
    return list(Event.objects.filter(entity_type="hold", entity_id=hold.pk).order_by("sequence"))


def _triggers(hold: Hold) -> list[str]:
    return [event.trigger for event in _events(hold)]
