"""Processes with a wrong clock: they use the database's, and times in the future are repaired."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection

from statecore import scheduling
from statecore.kernel import clock as kernel_clock
from statecore.kernel.clock import now
from statecore.operations.doctor import services
from statecore.scheduling import heartbeats, timers
from statecore.storage import database_clock
from tests.liveness.cases import CASES, HOLDER, Case, hold_worker, renew, submit_task, sweep
from tests.support import world

pytestmark = pytest.mark.django_db
HOURS = (-2, 2)
each_skew = pytest.mark.parametrize("hours", HOURS)


@contextmanager
def wrong_clock(hours: int) -> Iterator[None]:
    """A process whose clock is wrong by some hours, and that has connected to the database."""
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours)):
        database_clock.measure(connection)
        try:
            yield
        finally:
            kernel_clock.set_offset(timedelta())


def pass_time(duration: timedelta) -> None:
    """Lets the clock of the database, as this process knows it, show a later time."""
    kernel_clock.set_offset(kernel_clock.get_offset() + duration)


@each_skew
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_wrong_clock_neither_hides_a_silent_holder_nor_takes_from_a_live_one(case: Case, hours: int) -> None:
    true_time = datetime.now(UTC)
    with wrong_clock(hours):
        entity = case.hold()
        renew(entity)
        sweep()
        kept = type(entity).objects.get(pk=entity.pk)
        assert abs(kept.last_heartbeat - true_time) < timedelta(minutes=1)
        assert (kept.state, kept.version) == (entity.state, entity.version)
        pass_time(timedelta(minutes=1))
        for limit in case.limits:
            pass_time(limit)
            sweep()
        assert case.is_lost(type(entity).objects.get(pk=entity.pk))


@each_skew
def test_a_process_reports_its_skew(hours: int) -> None:
    with wrong_clock(hours):
        assert database_clock.skew_seconds._value.get() == pytest.approx(hours * 3600, abs=60)
        (result,) = services.check_clock()
    assert (result.level, "difference" in result.message) == ("error", True)


def test_a_clock_that_agrees_with_the_database_is_not_corrected() -> None:
    database_clock.measure(connection)
    assert abs(kernel_clock.get_offset()) < timedelta(seconds=1)
    kernel_clock.set_offset(timedelta())


def test_the_difference_is_measured_again_when_it_is_due_or_the_clock_was_set(monkeypatch: Any) -> None:
    measured: list[float] = []
    read = database_clock.read_seconds
    monkeypatch.setattr(database_clock, "is_followed", True)
    monkeypatch.setattr(database_clock, "read_seconds", lambda at: measured.append(time.monotonic()) or read(at))
    database_clock.measure(connection)
    database_clock.follow(connection)
    assert len(measured) == 1
    monkeypatch.setattr(database_clock, "_next_measurement", time.monotonic())
    database_clock.follow(connection)
    assert len(measured) == 2
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=1)):
        database_clock.follow(connection)
        assert kernel_clock.get_offset() < timedelta(minutes=-59)
    database_clock.follow(connection)
    assert abs(kernel_clock.get_offset()) < timedelta(seconds=1)
    kernel_clock.set_offset(timedelta())


def test_a_heartbeat_in_the_future_is_repaired_and_the_usual_limit_counts(clock: Any) -> None:
    worker = hold_worker()
    world.touched(worker, last_heartbeat=worker.last_heartbeat + timedelta(hours=2))
    assert heartbeats.repair_heartbeats() == 1
    assert heartbeats.repair_heartbeats() == 0
    clock.shift(301)
    assert timers.end_lost_workers() == 1


def test_a_lease_from_the_future_is_repaired(clock: Any) -> None:
    submit_task()
    clock.shift(7_200)
    (task,) = scheduling.claim(hold_worker().pk, actor=HOLDER)
    clock.shift(-7_200 + 60)
    heartbeats.repair_heartbeats()
    task.refresh_from_db()
    assert task.started_at == now()
    assert task.lease_expires_at == now() + timedelta(seconds=task.timeout_sec)
    assert world.last_event(task)["reason"] == "its lease began in the future"
