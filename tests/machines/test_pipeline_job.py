"""The pipeline job's guards and fields, and the checkpoints it is resumed from."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine

from statecore import transitions
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import GuardFailed, Invalid, NotFound, TerminalState
from statecore.machines.pipeline_job import PipelineJob
from statecore.records import checkpoint
from tests.support import world

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture(autouse=True)
def success_clears(monkeypatch):
    monkeypatch.setattr(registry, "reactions", [("pipeline_job", checkpoint.clear_when_done)])


def job(**fields):
    return world.created("PipelineJob", **fields)


def materializing(**fields):
    return world.fire(job(**fields), "materialize", detail="block 1 of 9")


def failed():
    return world.fire(materializing(), "fail", error="disk full")


def retried(entity):
    return transitions.retry(PipelineJob, entity.pk, actor=THE_SYSTEM).entity


def resumed_from(stored):
    """Creates the successor of a job that failed after storing this checkpoint."""
    entity = materializing()
    checkpoint.store(entity.pk, "materialize", stored)
    return retried(world.fire(entity, "fail", error="disk full"))


def payload(entity, phase="materialize"):
    found = checkpoint.read(entity.pk, phase)
    return found and found.payload


# Transitions


@pytest.mark.parametrize("trigger", ["analyze", "map", "materialize", "validate"])
def test_any_stage_may_be_the_first_and_starts_the_job(trigger):
    started = world.fire(job(), trigger, detail="off we go")
    assert (started.detail, started.started_at) == ("off we go", NOON)


def test_a_later_stage_keeps_the_start(clock):
    started = materializing()
    clock.shift(60)
    assert world.fire(started, "validate").started_at == NOON


def test_a_finished_job_has_ended():
    done = world.fire(materializing(), "finish", detail="9 datasets")
    assert (done.state, done.detail, done.completed_at) == ("DONE", "9 datasets", NOON)


def test_a_failure_keeps_its_message_twice():
    broken = failed()
    assert (broken.last_error, broken.detail, broken.completed_at) == ("disk full", "disk full", NOON)


def test_a_failure_says_what_went_wrong():
    with pytest.raises(GuardFailed) as refusal:
        world.fire(job(), "fail", error="  ")
    assert refusal.value.unmet[0].code == "no_error"


def test_a_failure_without_an_error_stores_the_reason():
    outcome = transitions.transition(
        PipelineJob, job().pk, "fail", actor=THE_SYSTEM, params={"error": ""}, reason="it crashed"
    )
    assert outcome.entity.last_error == "it crashed"


def test_a_cancelled_job_says_why():
    cancelled = world.fire(job(), "cancel", actor=world.operator(), detail="not needed")
    assert (cancelled.detail, cancelled.completed_at) == ("not needed", NOON)


def test_a_job_forced_to_fail_keeps_the_reason_as_its_error():
    assert world.forced(job(), "FAILED").last_error == world.REASON


def test_a_job_forced_back_has_not_started():
    assert world.forced(materializing(), "PENDING").started_at is None


def test_a_successor_runs_the_same_command():
    entity = world.fire(job(profile="dry", command="uscsv materialize"), "fail", error="disk full")
    heir = retried(entity)
    assert (heir.profile, heir.command, heir.last_error, heir.state) == ("dry", "uscsv materialize", "", "PENDING")


def test_the_event_has_the_detail():
    assert world.last_event(materializing())["metadata"] == {"detail": "block 1 of 9", "last_error": None}


# Checkpoints


def test_a_checkpoint_is_read_as_it_was_stored():
    entity = materializing()
    stored = checkpoint.store(entity.pk, "materialize", {"next_block": 4})
    assert stored.as_dict() == checkpoint.read(entity.pk, "materialize").as_dict()
    assert (stored.job_id, stored.payload, stored.updated_at) == (entity.pk, {"next_block": 4}, NOON)


def test_a_later_checkpoint_replaces_the_earlier_one():
    entity = materializing()
    checkpoint.store(entity.pk, "materialize", {"next_block": 4})
    checkpoint.store(entity.pk, "materialize", {"next_block": 5})
    assert payload(entity) == {"next_block": 5}


def test_each_phase_has_its_own_checkpoint():
    entity = materializing()
    checkpoint.store(entity.pk, "analyze", {"rows": 7})
    checkpoint.store(entity.pk, "materialize", {"next_block": 4})
    checkpoint.clear(entity.pk, "materialize")
    assert (payload(entity), payload(entity, "analyze")) == (None, {"rows": 7})


def test_a_failure_leaves_the_checkpoint():
    entity = materializing()
    checkpoint.store(entity.pk, "materialize", {"next_block": 4})
    assert payload(world.fire(entity, "fail", error="disk full")) == {"next_block": 4}


def test_success_clears_the_checkpoints():
    entity = materializing()
    checkpoint.store(entity.pk, "materialize", {"next_block": 4})
    assert payload(world.fire(entity, "finish")) is None


def test_a_successor_inherits_the_checkpoint():
    heir = resumed_from({"next_block": 4})
    found = checkpoint.read(heir.pk, "materialize")
    assert (found.payload, found.job_id) == ({"next_block": 4}, heir.retry_of_id)


def test_a_checkpoint_is_inherited_over_two_failures():
    heir = world.fire(resumed_from({"next_block": 4}), "fail", error="again")
    assert payload(retried(heir)) == {"next_block": 4}


def test_a_successors_own_checkpoint_comes_first():
    heir = resumed_from({"next_block": 4})
    checkpoint.store(heir.pk, "materialize", {"next_block": 6})
    assert payload(heir) == {"next_block": 6}
    assert payload(heir.retry_of) == {"next_block": 4}


def test_what_a_successor_clears_does_not_come_back():
    heir = resumed_from({"next_block": 4})
    assert checkpoint.clear(heir.pk, "materialize") == 1
    assert payload(heir) is None


def test_a_successor_that_is_done_clears_what_it_inherited():
    heir = resumed_from({"next_block": 4})
    world.fire(heir, "finish")
    assert not checkpoint.Checkpoint.objects.exists()


def test_a_job_that_has_ended_stores_no_checkpoint():
    with pytest.raises(TerminalState):
        checkpoint.store(failed().pk, "materialize", {})


def test_storing_for_an_unknown_job_is_refused():
    with pytest.raises(NotFound):
        checkpoint.store("nope", "materialize", {})


def test_reading_an_unknown_job_is_refused():
    assert checkpoint.read("nope", "materialize") is None


@pytest.mark.parametrize("stored", [None, [1], {"nul": "\0"}, {"long": "x" * 1_048_576}])
def test_a_payload_that_cannot_be_kept_is_refused(stored):
    with pytest.raises(Invalid):
        checkpoint.store(job().pk, "materialize", stored)


@pytest.mark.parametrize("phase", ["", "two words", "../up", "x" * 65])
def test_a_phase_is_named_like_an_id(phase):
    with pytest.raises(Invalid):
        checkpoint.store(job().pk, phase, {})
