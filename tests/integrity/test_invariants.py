"""The sweep finds every violation of an invariant between entities, and no false ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection

from statecore.kernel import registry
from statecore.operations import integrity
from statecore.operations.integrity import invariants
from statecore.storage import triggers
from tests.support import world

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
NO_END = {"completed_at": None}
SILENT = {"created_at": LONG_AGO, "last_heartbeat": LONG_AGO}


@pytest.fixture(autouse=True)
def from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "_places", {})


def put(entity: Any, **columns: Any) -> Any:
    """Updates the row directly, since reactions of the transition service would repair it."""
    with triggers.disabled(connection):
        type(entity).objects.filter(pk=entity.pk).update(**columns)
    return type(entity).objects.get(pk=entity.pk)


def a_checked_patch_without_its_flags() -> Any:
    return put(world.forced(world.patch(), "validated"), validation_scope_passed=False)


def a_quarantined_patch_of_a_workstream_that_goes_on() -> Any:
    patch = world.forced(world.patch(), "quarantined")
    put(patch.workstream, state="executing", **NO_END)
    return patch


def a_succeeded_run_with_an_open_workstream() -> Any:
    run = world.forced(world.workstream().run, "succeeded")
    put(run.workstreams.get(), state="planned", **NO_END)
    return run


def a_run_that_goes_on_after_a_critical_failure() -> Any:
    workstream = world.forced(world.workstream(is_critical=True), "failed")
    return put(workstream.run, state="running", started_at=workstream.created_at, **NO_END)


def a_queued_task_that_depends_on_an_open_one() -> Any:
    first = world.task()
    return put(world.task(workstream=first.workstream, depends_on=[first.pk]), state="queued")


def a_running_task_past_its_lease() -> Any:
    return put(world.running_task(), lease_expires_at=LONG_AGO)


def a_task_that_a_failed_gate_does_not_block() -> Any:
    gate = world.gate()
    task = world.task(entry_gates=[gate.pk])
    world.forced(gate, "FAILED")
    return put(task, state="queued")


def a_completed_task_whose_gate_waits() -> Any:
    return world.forced(world.task(gates=[world.gate().pk]), "completed")


def a_task_of_another_run() -> Any:
    return put(world.task(), run=world.run())


def a_running_gate_past_its_time() -> Any:
    return put(world.forced(world.gate(), "RUNNING"), times_out_at=LONG_AGO)


def a_passed_gate_that_depends_on_one_that_has_not() -> Any:
    return world.forced(world.gate(depends_on=[world.gate().pk]), "PASSED")


def a_silent_uet_worker() -> Any:
    return put(world.created("UetWorker", worker_type="docs"), state="IDLE", **SILENT)


def a_silent_worker() -> Any:
    return put(world.idle_worker(), **SILENT)


def a_worker_with_another_load() -> Any:
    return put(world.idle_worker(), current_load=1)


def an_unregistered_worker_with_a_task() -> Any:
    return put(world.running_task().worker, state="initializing")


def a_completed_workstream_with_an_open_task() -> Any:
    task = world.task()
    workstream = world.forced(task.workstream, "completed")
    put(task, state="pending", completed_at=None, cancelled_at=None)
    return workstream


def a_workstream_that_goes_on_after_a_critical_failure() -> Any:
    task = world.forced(world.task(is_critical=True), "failed")
    return put(task.workstream, state="executing", **NO_END)


def a_running_task_of_a_waiting_workstream() -> Any:
    task = world.running_task()
    put(task.workstream, state="ready")
    return task


def a_workstream_that_started_before_what_it_depends_on() -> Any:
    first = world.workstream()
    return put(world.workstream(run=first.run, depends_on=[first.pk]), state="executing")


def a_workstream_of_another_phase() -> Any:
    return put(world.workstream(), phase=world.phase())


BREAKS: dict[str, Callable[[], Any]] = {
    "checked_patches_carry_their_flags": a_checked_patch_without_its_flags,
    "quarantined_patches_fail_their_workstream": a_quarantined_patch_of_a_workstream_that_goes_on,
    "succeeded_runs_have_completed_workstreams": a_succeeded_run_with_an_open_workstream,
    "critical_failures_fail_the_run": a_run_that_goes_on_after_a_critical_failure,
    "queued_tasks_have_their_dependencies": a_queued_task_that_depends_on_an_open_one,
    "running_tasks_are_within_their_timeout": a_running_task_past_its_lease,
    "running_tasks_have_an_executing_workstream": a_running_task_of_a_waiting_workstream,
    "failed_gates_block": a_task_that_a_failed_gate_does_not_block,
    "completed_tasks_have_passed_their_gates": a_completed_task_whose_gate_waits,
    "tasks_belong_where_their_workstream_does": a_task_of_another_run,
    "running_gates_are_within_their_timeout": a_running_gate_past_its_time,
    "gates_run_after_their_dependencies": a_passed_gate_that_depends_on_one_that_has_not,
    "live_uet_workers_are_heard_from": a_silent_uet_worker,
    "live_workers_are_heard_from": a_silent_worker,
    "load_is_the_number_of_running_tasks": a_worker_with_another_load,
    "registered_workers_hold_tasks": an_unregistered_worker_with_a_task,
    "completed_workstreams_have_completed_tasks": a_completed_workstream_with_an_open_task,
    "critical_failures_fail_the_workstream": a_workstream_that_goes_on_after_a_critical_failure,
    "workstreams_execute_after_their_dependencies": a_workstream_that_started_before_what_it_depends_on,
    "workstreams_belong_to_their_run": a_workstream_of_another_phase,
}


def test_every_invariant_can_be_broken() -> None:
    declared = {each.name for flow in registry.flows() for each in flow.model.invariants()}
    assert declared == set(BREAKS), "BREAKS in this file must have an entity that breaks each invariant"


@pytest.mark.parametrize("name", BREAKS)
def test_the_sweep_finds_each_violation(name: str) -> None:
    broken = BREAKS[name]()
    found = [finding.entity_id for finding in integrity.sweep_invariants() if finding.check == name]
    assert found == [broken.pk]


@pytest.mark.parametrize(
    ("name", "whole"),
    [("critical_failures_fail_the_workstream", "workstream"), ("critical_failures_fail_the_run", "run")],
)
def test_a_retried_failure_is_no_violation(name: str, whole: str) -> None:
    BREAKS[name]()
    part = world.model("Task" if whole == "workstream" else "Workstream").objects.get()
    put(world.created(type(part).__name__, **{whole: getattr(part, whole)}), retry_of=part)
    assert name not in {finding.check for finding in integrity.sweep_invariants()}
