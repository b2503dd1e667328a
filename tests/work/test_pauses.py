"""Paused workstreams and suspended workers: nothing new starts, running work continues, and both resume."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from statecore import transitions
from statecore.journal import Event
from statecore.kernel.clock import rfc3339
from statecore.kernel.refusals import GuardFailed, InvalidTransition
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.read_models.stuck import explain, list_stuck
from statecore.scheduling import drain_worker, pauses, timers
from statecore.scheduling.matching import find_workers_to_wake
from tests.support import world
from tests.work.agents import Agent, states, submit, task, workstream

pytestmark = pytest.mark.django_db
START = datetime(2026, 1, 5, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Coordinates]:
    with time_machine.travel(START, tick=False) as travelled:
        yield travelled


def fire(model: Any, name: str, trigger: str, **params: Any) -> Any:
    return transitions.transition(model, name, trigger, actor=world.operator(), reason="upgrade", params=params)


def state(model: Any, name: str) -> str:
    return str(model.objects.get(pk=name).state)


def test_tasks_of_a_paused_workstream_are_not_claimed() -> None:
    submit(workstream("w", "t"))
    agent = Agent("a")
    fire(Workstream, "w", "workstream_paused")
    assert agent.claim() == []
    assert find_workers_to_wake(["a"]) == []
    with pytest.raises(GuardFailed, match="workstream w is paused"):
        transitions.transition(Task, "t", "worker_started", actor=agent.actor, params={"worker": "a"})
    fire(Workstream, "w", "workstream_resumed")
    assert state(Workstream, "w") == "ready"
    assert [claimed.pk for claimed in agent.claim()] == ["t"]


def test_running_tasks_continue_and_the_rest_follows_on_resume() -> None:
    submit(workstream("w", "t1", task("t2", "t1")))
    agent = Agent("a")
    (running,) = agent.claim()
    fire(Workstream, "w", "workstream_paused")
    agent.finish(running)
    assert states(Task) == {"t1": "completed", "t2": "pending"}
    assert [str(finding) for finding in integrity.check_all()] == []
    fire(Workstream, "w", "workstream_resumed")
    assert state(Workstream, "w") == "executing"
    agent.finish(agent.claim()[0])
    assert state(Run, "r") == "succeeded"


def test_the_last_task_may_complete_while_paused() -> None:
    submit(workstream("w", "t"))
    agent = Agent("a")
    (running,) = agent.claim()
    fire(Workstream, "w", "workstream_paused")
    agent.finish(running)
    assert (state(Workstream, "w"), state(Run, "r")) == ("paused", "running")
    fire(Workstream, "w", "workstream_resumed")
    assert (state(Workstream, "w"), state(Run, "r")) == ("completed", "succeeded")


def test_a_critical_failure_fails_a_paused_workstream() -> None:
    submit(workstream("w", task("t", is_critical=True, max_retries=0), "t2"))
    agent = Agent("a")
    (running,) = agent.claim(1)
    fire(Workstream, "w", "workstream_paused")
    agent.fail(running)
    assert state(Workstream, "w") == "failed"


def test_a_blocked_workstream_resumes_where_it_was_and_goes_on() -> None:
    submit(workstream("w1", "t1"), workstream("w2", "t2", depends_on=["w1"]))
    agent = Agent("a")
    assert state(Workstream, "w2") == "blocked"
    fire(Workstream, "w2", "workstream_paused")
    agent.finish(agent.claim()[0])
    assert (state(Workstream, "w1"), state(Workstream, "w2")) == ("completed", "paused")
    fire(Workstream, "w2", "workstream_resumed")
    assert [claimed.pk for claimed in agent.claim()] == ["t2"]


def test_a_pause_ends_at_its_time(clock: time_machine.Coordinates) -> None:
    submit(workstream("w", "t"))
    fire(Workstream, "w", "workstream_paused", until=rfc3339(START + HOUR))
    event = Event.objects.filter(entity_id="w").latest("sequence").as_dict()
    assert event["metadata"]["paused_until"] == rfc3339(START + HOUR)
    clock.shift(HOUR - timedelta(seconds=1))
    assert timers.resume_paused() == 0
    clock.shift(timedelta(seconds=1))
    assert [timers.resume_paused(), timers.resume_paused()] == [1, 0]
    assert state(Workstream, "w") == "ready"
    assert Workstream.objects.get(pk="w").paused_until is None


@pytest.mark.parametrize("until", ["soon", "2027-01-01T00:00:00", "2026-01-05T08:00:00Z"])
def test_an_end_is_a_time_in_the_future(until: str) -> None:
    submit(workstream("w", "t"))
    Agent("a")
    for model, name, trigger in ((Workstream, "w", "workstream_paused"), (Worker, "a", "worker_suspended")):
        with pytest.raises(GuardFailed, match="until must be"):
            fire(model, name, trigger, until=until)


def test_paused_is_not_stuck_and_explains_itself(clock: time_machine.Coordinates) -> None:
    submit(workstream("w", "t"))
    fire(Workstream, "w", "workstream_paused", until=rfc3339(START + timedelta(days=3)))
    clock.shift(timedelta(days=2))
    assert list_stuck(10) == []
    assert explain(Task, "t").sentence == (
        "task t waits for workstream w, paused 2 d: it resumes at 2026-01-08 08:00:00 UTC"
    )


def test_a_run_is_paused_and_resumed_with_its_workstreams() -> None:
    submit(workstream("w1", "t1"), workstream("w2", "t2", depends_on=["w1"]))
    agent, ada = Agent("a"), world.operator()
    paused = pauses.pause_run("r", actor=ada, reason="upgrade", until=None)
    assert sorted(item.entity_id for item in paused) == ["w1", "w2"]
    assert set(states(Workstream).values()) == {"paused"}
    assert agent.claim() == []
    with pytest.raises(GuardFailed):
        pauses.pause_run("r", actor=ada, reason="again", until=None)
    pauses.resume_run("r", actor=ada, reason="done")
    assert states(Workstream) == {"w1": "ready", "w2": "blocked"}
    assert [claimed.pk for claimed in agent.claim()] == ["t1"]


def test_a_paused_workstream_is_cancelled_and_takes_new_tasks() -> None:
    submit(workstream("w", "t"))
    fire(Workstream, "w", "workstream_paused")
    transitions.create(Task, id="t2", workstream="w", actor=world.operator())
    fire(Workstream, "w", "workstream_cancelled")
    assert set(states(Task).values()) == {"cancelled"}


# Workers


def test_a_suspended_worker_gets_no_task_and_is_not_stuck(clock: time_machine.Coordinates) -> None:
    submit(workstream("w", "t"))
    agent = Agent("a")
    fire(Worker, "a", "worker_suspended")
    assert agent.claim() == []
    assert find_workers_to_wake(["a"]) == []
    clock.shift(timedelta(minutes=9))
    timers.end_lost_workers()
    assert state(Worker, "a") == "suspended"
    assert [item for item in list_stuck(10) if item.entity.pk == "a"] == []
    fire(Worker, "a", "worker_resumed")
    assert [claimed.pk for claimed in agent.claim()] == ["t"]


def test_a_busy_worker_finishes_and_is_then_suspended(clock: time_machine.Coordinates) -> None:
    submit(workstream("w", "t1", "t2"))
    agent = Agent("a")
    (running,) = agent.claim()
    fire(Worker, "a", "worker_suspended", until=rfc3339(START + HOUR))
    assert state(Worker, "a") == "busy"
    assert agent.exchange(running).tasks == []
    assert state(Worker, "a") == "suspended"
    clock.shift(HOUR)
    timers.resume_paused()
    assert state(Worker, "a") == "idle"
    worker = Worker.objects.get(pk="a")
    assert (worker.suspending, worker.suspended_until) == (False, None)


def test_the_suspension_of_a_busy_worker_is_taken_back() -> None:
    submit(workstream("w", "t1", "t2"))
    agent = Agent("a")
    (running,) = agent.claim()
    with pytest.raises(GuardFailed):
        fire(Worker, "a", "worker_resumed")
    fire(Worker, "a", "worker_suspended")
    fire(Worker, "a", "worker_resumed")
    assert len(agent.exchange(running).tasks) == 1


def test_a_suspended_worker_is_drained_at_once() -> None:
    Agent("a")
    fire(Worker, "a", "worker_suspended")
    drain_worker("a", actor=world.operator())
    assert state(Worker, "a") == "shutdown"


def test_agents_do_not_pause() -> None:
    submit(workstream("w", "t"))
    Agent("a")
    for model, name, trigger in ((Workstream, "w", "workstream_paused"), (Worker, "a", "worker_suspended")):
        with pytest.raises((InvalidTransition, Exception)) as refusal:
            transitions.transition(model, name, trigger, actor=world.AGENT)
        assert refusal.value.code == "permission_denied" or refusal.value.code == "not_the_holder"
