"""The liveness contract of every machine that works: its holder renews it, stops, or reports too late."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from statecore import scheduling
from statecore.kernel import registry
from statecore.kernel.refusals import LeaseLost, NotTheHolder, Refusal
from tests.liveness.cases import CASES, OTHER, Case, renew, sweep
from tests.support import world

pytestmark = pytest.mark.django_db
each_machine = pytest.mark.parametrize("case", CASES, ids=str)
REFUSALS = {"lease_lost", "terminal_state", "not_the_holder", "invalid_transition", "guard_failed"}
SECOND = timedelta(seconds=1)


def read(entity: Any) -> Any:
    return type(entity).objects.get(pk=entity.pk)


def fall_silent(case: Case, clock: Any) -> None:
    clock.shift(SECOND)
    for limit in case.limits:
        clock.shift(limit)
        sweep()


def test_every_machine_with_heartbeats_is_in_the_matrix() -> None:
    renewed = {flow.entity_type for flow in registry.flows() if flow.renewed_in and flow.model._meta.app_label != "toy"}
    assert renewed == {case.name for case in CASES} | {"test_gate"}  # its holder has the timeout of the gate


@each_machine
def test_a_holder_that_renews_is_never_taken_away(case: Case, clock: Any) -> None:
    entity = case.hold()
    for _renewal in range(6):
        clock.shift(sum(case.limits, timedelta()) * 0.8)
        renew(entity)
        sweep()
    kept = read(entity)
    assert (kept.state, kept.version, kept.holder) == (entity.state, entity.version, entity.holder)


@each_machine
def test_a_silent_holder_loses_it_after_the_declared_time_and_not_before(case: Case, clock: Any) -> None:
    entity = case.hold()
    clock.shift(sum(case.limits, timedelta()) - SECOND)
    sweep()
    assert not case.is_lost(read(entity))
    renew(entity)
    fall_silent(case, clock)
    assert case.is_lost(read(entity))


@each_machine
def test_a_late_heartbeat_and_a_late_report_are_refused(case: Case, clock: Any) -> None:
    entity = case.hold()
    fall_silent(case, clock)
    if case.name not in ("worker", "task"):  # their heartbeats are answered with commands to stop
        with pytest.raises(LeaseLost):
            renew(entity)
    with pytest.raises(Refusal) as refused:
        case.report_late(entity)
    assert refused.value.code in REFUSALS


@each_machine
def test_no_other_agent_renews_it(case: Case, clock: Any) -> None:
    entity = case.hold()
    clock.shift(SECOND)
    with pytest.raises(NotTheHolder):
        renew(entity, OTHER)
    assert read(entity).last_heartbeat == entity.last_heartbeat


def test_a_gate_that_is_renewed_still_has_its_timeout(clock: Any) -> None:
    gate = world.fire(world.gate(timeout_sec=7_200), "gate_started", actor=world.INTEGRATOR)
    reply = scheduling.renew(type(gate), gate.pk, actor=world.INTEGRATOR, progress={"fraction": 0.5, "detail": "half"})
    assert reply["lease_expires_at"] == "2026-01-05T10:00:00.000000Z"
    at = "2026-01-05T08:00:00.000000Z"
    assert read(gate).progress == {"fraction": 0.5, "detail": "half", "at": at, "since": at}
