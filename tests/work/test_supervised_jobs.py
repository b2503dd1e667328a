"""Supervised jobs run on real idle workers, each worker for one job."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import time_machine

from statecore import transitions
from statecore.kernel.actors import Actor
from statecore.kernel.refusals import GuardFailed, NotTheHolder
from statecore.machines.supervised_job import SupervisedJob
from statecore.machines.supervised_worker import SupervisedWorker
from statecore.read_models import stuck
from tests.machines.worlds import fixed_clock
from tests.support import world
from tests.support.together import run_concurrently
from tests.work.agents import states

pytestmark = pytest.mark.django_db
SUPERVISOR, OTHER = Actor.agent("supervisor"), Actor.agent("other")


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with fixed_clock() as traveller:
        yield traveller


def workers(*names: str, actor: Actor = SUPERVISOR) -> list[str]:
    for name in names:
        transitions.create(SupervisedWorker, id=name, actor=actor, workspace_id="space")
    return list(names)


def pending(name: str, worker_count: int = 1) -> str:
    fields = {"task_description": "sort", "worker_count": worker_count}
    transitions.create(SupervisedJob, id=name, actor=SUPERVISOR, **fields)
    transitions.transition(SupervisedJob, name, "validate", actor=SUPERVISOR)
    return name


def fire(name: str, trigger: str, actor: Actor = SUPERVISOR, **params: Any) -> Any:
    return transitions.transition(SupervisedJob, name, trigger, actor=actor, params=params)


def expect_refusal(name: str, *allocated: str) -> str:
    with pytest.raises(GuardFailed) as refusal:
        fire(name, "allocate_resources", workers=list(allocated))
    assert states(SupervisedJob)[name] == refusal.value.facts["state"] == "PENDING"
    assert "allocate_resources" in refusal.value.facts["allowed"]
    return refusal.value.unmet[0].detail


def test_an_allocation_starts_its_workers() -> None:
    outcome = fire(pending("j", 2), "allocate_resources", workers=workers("a", "b"))
    assert states(SupervisedWorker) == {"a": "RUNNING", "b": "RUNNING"}
    assert [(entry.entity_id, entry.caused_by) for entry in outcome.caused] == [
        ("a", outcome.entry.event_id),
        ("b", outcome.entry.event_id),
    ]


def test_a_worker_that_does_not_exist_is_refused() -> None:
    workers("a")
    assert expect_refusal(pending("j", 2), "a", "ghost") == "supervised worker ghost does not exist"
    assert states(SupervisedWorker) == {"a": "IDLE"}


def test_a_worker_of_another_job_is_refused() -> None:
    fire(pending("first"), "allocate_resources", workers=workers("a"))
    assert expect_refusal(pending("second"), "a") == "supervised worker a works for job first"


@pytest.mark.parametrize("trigger", ["start_task", "terminate"])
def test_a_worker_that_is_not_idle_is_refused(trigger: str) -> None:
    workers("a")
    transitions.transition(SupervisedWorker, "a", trigger, actor=world.THE_SYSTEM)
    assert "not IDLE" in expect_refusal(pending("j"), "a")


def test_the_idle_successor_of_a_lost_worker_stays_with_its_job() -> None:
    fire(pending("first"), "allocate_resources", workers=workers("a"))
    transitions.transition(SupervisedWorker, "a", "terminate", actor=world.operator())
    assert stuck.recover_stalled() == 1
    (successor,) = SupervisedJob.objects.get(pk="first").allocated_workers
    assert states(SupervisedWorker)[successor] == "IDLE"
    assert expect_refusal(pending("second"), successor) == f"supervised worker {successor} works for job first"


def test_canceling_a_job_terminates_its_workers() -> None:
    fire(pending("j", 2), "allocate_resources", workers=workers("a", "b"))
    workers("bystander")
    transitions.transition(SupervisedWorker, "b", "complete_tasks", actor=SUPERVISOR)
    fire("j", "cancel", actor=world.operator())
    assert states(SupervisedWorker) == {"a": "TERMINATED", "b": "COMPLETED", "bystander": "IDLE"}


def test_an_overdue_job_is_canceled_and_terminates_its_workers(clock: Any) -> None:
    fire(pending("j"), "allocate_resources", workers=workers("a"))
    clock.shift(timedelta(hours=2))
    stuck.recover_stalled()
    assert (states(SupervisedJob), states(SupervisedWorker)) == ({"j": "CANCELED"}, {"a": "TERMINATED"})


def test_a_waiting_job_is_given_idle_workers(clock: Any) -> None:
    pending("large", 3)
    pending("small", 2)
    workers("a", "b")
    assert stuck.recover_stalled() == 0  # its agent may allocate them first
    clock.shift(timedelta(minutes=1))
    assert stuck.recover_stalled() == 1
    assert (states(SupervisedJob), stuck.recover_stalled()) == ({"large": "PENDING", "small": "RUNNING"}, 0)
    assert set(states(SupervisedWorker).values()) == {"RUNNING"}


def test_a_silent_worker_is_given_no_job(clock: Any) -> None:
    pending("j")
    workers("a")
    clock.shift(timedelta(minutes=6))
    assert (stuck.recover_stalled(), states(SupervisedJob)) == (0, {"j": "PENDING"})


def test_the_holder_of_a_worker_reports_its_pending_tasks() -> None:
    workers("a")
    transitions.edit(SupervisedWorker, "a", {"pending_tasks": 2}, actor=SUPERVISOR)
    assert SupervisedWorker.objects.get(pk="a").pending_tasks == 2
    with pytest.raises(NotTheHolder):
        transitions.edit(SupervisedWorker, "a", {"pending_tasks": 0}, actor=OTHER)


@pytest.mark.django_db(transaction=True)
def test_a_worker_raced_by_jobs_goes_to_one() -> None:
    workers("a")
    jobs = [pending(f"j{number}") for number in range(4)]
    run_concurrently([partial(fire, job, "allocate_resources", workers=["a"]) for job in jobs])
    assert sorted(states(SupervisedJob).values()) == ["PENDING", "PENDING", "PENDING", "RUNNING"]
