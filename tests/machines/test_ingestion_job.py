"""The ingestion job's guards and the effects of its transitions."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from statecore import transitions
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import (
    AlreadyInState,
    ConstraintViolated,
    GuardFailed,
    Invalid,
    LeaseLost,
    PermissionDenied,
)
from statecore.machines.ingestion_job import IngestionJob
from tests.support import world

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


def job(**fields):
    return world.created("IngestionJob", **fields)


def running(**fields):
    return world.fire(job(**fields), "start", worker="w1")


def failed(**fields):
    return world.fire(running(**fields), "fail", error="disk full")


def quarantined():
    return world.fire(failed(), "quarantine")


def test_a_start_counts_the_attempt_and_names_the_worker():
    started = running()
    assert (started.attempts, started.attempt, started.worker_name, started.started_at) == (1, 1, "w1", NOON)


def test_a_start_without_a_worker_is_held_by_the_caller():
    assert world.fire(job(), "start", actor=world.AGENT).worker_name == world.AGENT.name


def test_a_second_start_is_a_repeat_and_counts_nothing():
    outcome = transitions.transition(IngestionJob, running().pk, "start", actor=THE_SYSTEM)
    assert (outcome.changed, outcome.entity.attempts, outcome.entity.worker_name) == (False, 1, "w1")


@pytest.mark.parametrize(("make", "trigger"), [(failed, "fail"), (quarantined, "quarantine"), (job, "retry")])
def test_a_trigger_that_is_already_true_writes_no_event(make, trigger):
    entity = make()
    before = world.trace(entity)
    assert not transitions.transition(IngestionJob, entity.pk, trigger, actor=THE_SYSTEM).changed
    assert world.trace(entity) == before


def test_success_lets_the_worker_go_and_ends_the_job():
    done = world.fire(running(), "succeed")
    assert (done.state, done.worker_name, done.completed_at) == ("succeeded", "", NOON)


def test_a_failure_keeps_its_error_and_is_not_the_end():
    broken = failed()
    assert (broken.last_error, broken.worker_name, broken.completed_at) == ("disk full", "", None)


def test_a_failure_without_an_error_stores_the_reason():
    outcome = transitions.transition(IngestionJob, running().pk, "fail", actor=THE_SYSTEM, reason="it stalled")
    assert outcome.entity.last_error == "it stalled"


@pytest.mark.parametrize("trigger", ["succeed", "fail"])
def test_a_report_from_a_lost_lease_is_refused(trigger):
    with pytest.raises(LeaseLost):
        world.fire(running(), trigger, actor=world.AGENT, attempt=7)


def test_a_retried_job_waits_a_minute():
    assert world.fire(failed(), "retry").run_after == NOON + timedelta(seconds=60)


def test_a_retried_job_does_not_start_before_its_delay_has_passed(clock):
    retried = world.fire(failed(), "retry", delay_seconds=30)
    clock.shift(29)
    with pytest.raises(GuardFailed) as refusal:
        world.fire(retried, "start")
    assert refusal.value.unmet[0].code == "delayed"


def test_a_retried_job_starts_when_its_delay_has_passed(clock):
    retried = world.fire(failed(), "retry", delay_seconds=30)
    clock.shift(30)
    again = world.fire(retried, "start")
    assert (again.attempts, again.run_after) == (2, None)


def test_a_negative_delay_is_refused():
    with pytest.raises(GuardFailed) as refusal:
        world.fire(failed(), "retry", delay_seconds=-1)
    assert refusal.value.unmet[0].code == "negative_delay"


@pytest.mark.parametrize("actor", [THE_SYSTEM, world.AGENT], ids=lambda actor: str(actor.kind))
def test_a_job_without_attempts_left_is_not_retried_by_machines(actor):
    with pytest.raises(GuardFailed) as refusal:
        world.fire(failed(max_attempts=1), "retry", actor=actor, attempt=1)
    assert refusal.value.unmet[0].code == "attempts_exhausted"


def test_an_operator_may_retry_a_job_without_attempts_left():
    assert world.fire(failed(max_attempts=1), "retry", actor=world.operator()).state == "pending"


def test_a_quarantined_job_has_ended():
    assert quarantined().completed_at == NOON


@pytest.mark.parametrize("actor", [THE_SYSTEM, world.AGENT], ids=lambda actor: str(actor.kind))
def test_only_an_operator_releases_a_quarantined_job(actor):
    with pytest.raises(PermissionDenied):
        world.fire(quarantined(), "retry", actor=actor)


def test_a_released_job_may_start_at_once():
    released = world.fire(quarantined(), "retry", actor=world.operator())
    assert (released.completed_at, released.run_after) == (None, NOON)
    assert world.fire(released, "start").attempts == 2


def test_attempts_of_zero_are_no_attempts():
    with pytest.raises(Invalid):
        job(max_attempts=0)


def test_a_job_cannot_be_forced_to_run_without_a_worker():
    with pytest.raises(ConstraintViolated):
        world.forced(job(), "running")


@pytest.mark.parametrize("state", ["pending", "succeeded", "failed", "quarantined"])
def test_forcing_a_running_job_lets_its_worker_go(state):
    forced = world.forced(running(), state)
    ended = NOON if state in ("succeeded", "quarantined") else None
    assert (forced.worker_name, forced.completed_at) == ("", ended)


def test_the_event_has_the_attempts_and_the_worker():
    assert world.last_event(running())["metadata"] == {"attempts": 1, "worker_name": "w1"}


@pytest.mark.parametrize("delay", [0, 90])
def test_a_repeated_retry_with_another_delay_is_refused(delay):
    waiting = world.fire(failed(), "retry", delay_seconds=60)
    assert not transitions.transition(
        IngestionJob, waiting.pk, "retry", actor=THE_SYSTEM, params={"delay_seconds": 60}
    ).changed
    with pytest.raises(AlreadyInState):
        world.fire(waiting, "retry", delay_seconds=delay)
    assert IngestionJob.objects.get().run_after == NOON + timedelta(seconds=60)
