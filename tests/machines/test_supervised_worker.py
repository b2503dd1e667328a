"""The supervised worker's guards and the effects of its transitions."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from statecore.kernel.clock import now
from statecore.kernel.refusals import ConstraintViolated, GuardFailed, Invalid, InvalidTransition, PermissionDenied
from statecore.machines.supervised_worker import CALM
from tests.support import world

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


def worker(**fields):
    return world.created("SupervisedWorker", **{"workspace_id": "space-1", **fields})


def running(**fields):
    return world.fire(worker(**fields), "start_task")


def paused():
    return world.fire(running(), "pause")


def test_a_worker_belongs_to_a_workspace():
    with pytest.raises(Invalid) as refusal:
        world.created("SupervisedWorker")
    assert "workspace_id" in refusal.value.facts["errors"]


def test_a_started_worker_holds_its_task():
    started = running()
    assert (started.active_tasks, started.started_at) == (1, NOON)


def test_a_full_worker_starts_no_task():
    with pytest.raises(GuardFailed) as refusal:
        running(capacity=2, active_tasks=2)
    assert refusal.value.unmet[0].code == "no_capacity"


def test_a_worker_is_never_more_than_full():
    with pytest.raises(ConstraintViolated):
        worker(capacity=1, active_tasks=2)


def test_a_worker_with_pending_tasks_does_not_complete():
    with pytest.raises(GuardFailed) as refusal:
        world.fire(running(pending_tasks=2), "complete_tasks")
    assert refusal.value.unmet[0].code == "tasks_pending"


def test_a_completed_worker_holds_nothing_and_has_ended():
    done = world.fire(running(), "complete_tasks")
    assert (done.active_tasks, done.started_at, done.completed_at) == (0, NOON, NOON)


def test_a_retryable_error_does_not_fail_the_worker():
    with pytest.raises(GuardFailed) as refusal:
        world.fire(running(), "error_unrecoverable", error="timeout", retryable=True)
    assert refusal.value.unmet[0].code == "retryable"


def test_an_unrecoverable_error_fails_the_worker_and_is_kept():
    broken = world.fire(running(), "error_unrecoverable", error="out of memory")
    assert (broken.state, broken.last_error, broken.completed_at) == ("FAILED", "out of memory", NOON)


def test_a_pause_keeps_the_task_and_the_start(clock):
    stopped = paused()
    clock.shift(60)
    resumed = world.fire(stopped, "resume")
    assert (stopped.active_tasks, resumed.active_tasks, resumed.started_at) == (1, 1, NOON)


def test_a_worker_that_never_ran_is_not_resumed():
    with pytest.raises(InvalidTransition):
        world.fire(worker(), "resume")


@pytest.mark.parametrize(("make", "trigger"), [(running, "pause"), (paused, "resume"), (worker, "terminate")])
def test_an_agent_does_not_supervise(make, trigger):
    with pytest.raises(PermissionDenied):
        world.fire(make(), trigger, actor=world.AGENT)


@pytest.mark.parametrize("make", [worker, running, paused])
def test_a_worker_is_terminated_from_any_state_that_is_not_final(make):
    stopped = world.fire(make(), "terminate", actor=world.operator())
    assert (stopped.state, stopped.active_tasks, stopped.completed_at) == ("TERMINATED", 0, NOON)


def test_a_worker_forced_back_to_idle_has_not_started():
    assert world.forced(running(), "IDLE").started_at is None


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED"])
def test_a_worker_forced_under_way_has_started(state):
    assert world.forced(worker(), state).started_at == NOON


def test_the_event_has_the_workspace_and_the_load():
    facts = {"workspace_id": "space-1", "active_tasks": 1, "pending_tasks": 2}
    assert world.last_event(running(pending_tasks=2))["metadata"] == facts


def test_a_transient_error_is_retried_three_times_with_a_growing_delay(clock):
    retrying, waits = running(), []
    for number in range(1, 4):
        retrying = world.fire(retrying, "error_transient", error=f"network {number}")
        assert (retrying.state, retrying.retry_count, retrying.last_error) == ("RUNNING", number, f"network {number}")
        waits.append(retrying.retry_at - now())
        clock.move_to(retrying.retry_at)
    assert waits == sorted(waits)
    failed = world.fire(retrying, "error_transient", error="network again")
    assert (failed.state, failed.last_error) == ("FAILED", "network again")


def test_an_error_long_after_the_last_retry_counts_as_the_first(clock):
    retrying = running()
    for _error in range(3):
        retrying = world.fire(retrying, "error_transient", error="network")
    clock.move_to(retrying.retry_at + CALM + timedelta(seconds=1))
    again = world.fire(retrying, "error_transient", error="network")
    assert (again.state, again.retry_count) == ("RUNNING", 1)


def test_exhausted_resources_pause_the_worker_which_releases_what_it_holds():
    exhausted = world.fire(running(capacity=2), "resources_exhausted", error="no disk space")
    assert (exhausted.state, exhausted.active_tasks, exhausted.last_error) == ("PAUSED", 0, "no disk space")
    assert world.fire(exhausted, "resume").state == "RUNNING"
