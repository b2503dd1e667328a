"""Holders: how an agent becomes one, and how operators, overrides, retries and recovery end it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from statecore import transitions
from statecore.kernel.actors import THE_SYSTEM, Actor
from statecore.kernel.clock import now
from statecore.kernel.refusals import NotTheHolder
from statecore.scheduling.recovery import recover_stalled
from tests.support import world

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("machines_in_isolation")]

MINE, OTHER = Actor.agent("mine"), Actor.agent("other")


def stored(entity: Any) -> Any:
    return type(entity).objects.get(pk=entity.pk)


def test_the_first_agent_takes_a_free_job_and_a_requeued_job_is_free_again() -> None:
    job = world.created("AgentJob")
    assert job.is_free()
    job = world.fire(job, "job_leased", actor=MINE)
    assert stored(job).holder == MINE.identity
    job = world.fire(job, "job_requeued", actor=MINE, attempt=1)
    assert stored(job).holder == ""
    assert stored(world.fire(job, "job_leased", actor=OTHER)).holder == OTHER.identity


def test_an_entity_started_by_the_system_is_taken_by_the_first_report() -> None:
    job = world.fire(world.created("PipelineJob"), "analyze")
    assert (job.holder, job.is_free()) == ("", True)
    world.fire(job, "map", actor=MINE)
    with pytest.raises(NotTheHolder):
        world.fire(job, "finish", actor=OTHER)


def test_an_operator_and_the_system_are_not_held_back_and_take_nothing() -> None:
    job = world.fire(world.created("PipelineJob"), "analyze", actor=MINE)
    job = world.fire(job, "map", actor=THE_SYSTEM)
    assert job.holder == MINE.identity
    job = world.fire(job, "cancel", actor=world.operator())
    assert (job.state, job.holder) == ("CANCELLED", MINE.identity)


def test_an_override_takes_a_leased_job_from_its_holder() -> None:
    job = world.fire(world.created("PipelineJob"), "map", actor=MINE)
    job = world.forced(job, "ANALYZING")
    assert stored(job).holder == ""
    assert world.fire(job, "map", actor=OTHER).holder == OTHER.identity
    with pytest.raises(NotTheHolder):
        world.fire(job, "finish", actor=MINE)


def test_an_override_leaves_a_registered_worker_to_its_agent() -> None:
    worker = transitions.create(world.model("UetWorker"), actor=MINE, worker_type="cpu").entity
    worker = world.forced(worker, "BUSY")
    assert stored(worker).holder == MINE.identity
    with pytest.raises(NotTheHolder):
        world.fire(worker, "task_completed", actor=OTHER)


def test_a_successor_has_no_holder() -> None:
    worker = transitions.create(world.model("SupervisedWorker"), actor=MINE, workspace_id="ws").entity
    world.fire(worker, "terminate")
    successor = transitions.retry(type(worker), worker.pk, actor=world.operator()).entity
    assert successor.holder == ""
    assert world.fire(successor, "start_task", actor=OTHER).holder == OTHER.identity


def test_recovery_releases_a_stalled_pipeline_job_to_the_next_agent() -> None:
    job = world.fire(world.created("PipelineJob"), "analyze", actor=MINE)
    with time_machine.travel(now() + timedelta(hours=1)):
        assert recover_stalled() == 1
        assert stored(job).is_free()
        world.fire(job, "map", actor=OTHER)
    with time_machine.travel(now() + timedelta(hours=2)), pytest.raises(NotTheHolder):
        world.fire(job, "finish", actor=MINE)


def test_a_completed_task_keeps_the_agent_that_did_it() -> None:
    worker = world.idle_worker()
    task = world.fire(world.queued_task(), "worker_started", actor=MINE, worker=worker.pk)
    task = world.fire(task, "execution_completed", actor=MINE, attempt=1, exit_code=0)
    task = world.fire(task, "validation_passed")
    assert (stored(task).state, stored(task).holder) == ("completed", MINE.identity)
