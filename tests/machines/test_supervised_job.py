"""The supervised job's guards and the effects of its transitions."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine

from statecore import transitions
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import ConstraintViolated, GuardFailed, Invalid, PermissionDenied
from statecore.machines.supervised_job import SupervisedJob
from tests.support import world

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


def job(**fields):
    return world.created("SupervisedJob", **{"task_description": "sort the files", **fields})


def pending(**fields):
    return world.fire(job(**fields), "validate")


def running():
    return world.fire(pending(), "allocate_resources", workers=world.idle_supervised_workers("sw1"))


@pytest.mark.parametrize("fields", [{"depth": 6}, {"depth": -1}, {"worker_count": 0}, {"worker_count": 11}])
def test_depth_and_worker_count_have_bounds(fields):
    with pytest.raises(Invalid):
        job(**fields)


@pytest.mark.parametrize("description", ["", "   "])
def test_a_job_without_a_description_is_not_valid(description):
    with pytest.raises(GuardFailed) as refusal:
        pending(task_description=description)
    assert refusal.value.unmet[0].code == "no_description"


def test_a_child_lies_one_below_its_parent():
    assert pending(parent_job=job(depth=2), depth=3).state == "PENDING"


@pytest.mark.parametrize("depth", [2, 4])
def test_a_child_at_another_depth_is_not_valid(depth):
    parent = job(depth=2)
    with pytest.raises(GuardFailed) as refusal:
        pending(parent_job=parent, depth=depth)
    assert (refusal.value.unmet[0].code, refusal.value.unmet[0].entity) == ("wrong_depth", parent.pk)


def test_a_validation_error_fails_the_job_and_is_kept():
    broken = world.fire(job(task_description=""), "validation_error", error="no description")
    assert (broken.state, broken.last_error, broken.completed_at) == ("FAILED", "no description", NOON)


def test_an_agent_reports_no_validation_error():
    with pytest.raises(PermissionDenied):
        world.fire(job(), "validation_error", actor=world.AGENT, error="no description")


@pytest.mark.parametrize("workers", [[], ["sw1"], ["sw1", "sw1"]])
def test_a_job_does_not_run_with_too_few_workers(workers):
    with pytest.raises(GuardFailed) as refusal:
        world.fire(pending(worker_count=2), "allocate_resources", workers=workers)
    assert refusal.value.unmet[0].code == "too_few_workers"


@pytest.mark.parametrize("stranger", [7, "", "two words", {"id": "sw1"}])
def test_a_worker_is_named_by_its_id(stranger):
    with pytest.raises(GuardFailed) as refusal:
        world.fire(pending(), "allocate_resources", workers=["sw1", stranger])
    assert refusal.value.unmet[0].code == "not_a_worker"


def test_a_running_job_holds_its_workers_each_once():
    world.idle_supervised_workers("a", "b")
    started = world.fire(pending(worker_count=2), "allocate_resources", workers=["b", "a", "b"])
    assert (started.allocated_workers, started.started_at) == (["b", "a"], NOON)


def test_success_keeps_the_result_and_releases_the_workers():
    done = world.fire(running(), "success", result={"sorted": 3})
    assert (done.result, done.allocated_workers, done.completed_at) == ({"sorted": 3}, [], NOON)
    assert world.last_event(done)["metadata"]["allocated_workers"] == ["sw1"]


def test_an_error_is_kept_and_releases_the_workers():
    broken = world.fire(running(), "error", error="worker crashed")
    assert (broken.last_error, broken.allocated_workers) == ("worker crashed", [])


def test_an_empty_error_stores_the_reason():
    outcome = transitions.transition(SupervisedJob, running().pk, "error", actor=THE_SYSTEM, reason="it crashed")
    assert outcome.entity.last_error == "it crashed"


@pytest.mark.parametrize("make", [job, pending, running])
def test_a_job_is_canceled_from_any_state_that_is_not_final(make):
    canceled = world.fire(make(), "cancel", actor=world.operator())
    assert (canceled.state, canceled.allocated_workers, canceled.completed_at) == ("CANCELED", [], NOON)


def test_an_agent_cancels_no_job():
    with pytest.raises(PermissionDenied):
        world.fire(job(), "cancel", actor=world.AGENT)


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETED"])
def test_a_job_without_a_description_cannot_be_forced_to_be_valid(state):
    with pytest.raises(ConstraintViolated):
        world.forced(job(task_description=""), state)


@pytest.mark.parametrize("state", ["SUBMITTED", "PENDING"])
def test_a_job_forced_back_has_not_started_and_holds_no_worker(state):
    forced = world.forced(running(), state)
    assert (forced.started_at, forced.allocated_workers) == (None, [])
