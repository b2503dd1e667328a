"""Roll-ups have every event once in each resolution, by capability too, and samples of the load."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import IntegrityError
from django.db.models import Sum

from statecore.delivery.sinks.sink import Sink
from statecore.delivery.sinks.trends import Trends
from statecore.journal.position import head
from statecore.kernel.clock import now
from statecore.read_models import history
from statecore.records import CapabilityRollUp, DwellRollUp, LoadRollUp, TransitionRollUp
from statecore.records.roll_up import RETENTION, Resolution, find_bucket, get_bucket_seconds
from tests.support import world
from tests.support.sequencer import catch_up, sequencer

pytestmark = pytest.mark.django_db(transaction=True)
MONDAY = datetime(2026, 3, 2, 23, 58, 30, tzinfo=UTC)


@pytest.fixture
def traveller() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(MONDAY, tick=False) as found:
        yield found


def count(resolution: Resolution, **filters: Any) -> dict[datetime, int]:
    rows = TransitionRollUp.objects.filter(resolution=resolution, **filters).order_by().values_list("start")
    return dict(rows.annotate(Sum("count")))


def test_transitions_are_counted_by_minute_hour_and_day_and_deleted_when_they_are_old(traveller) -> None:
    worker = world.created("UetWorker", worker_type="test")
    traveller.shift(timedelta(minutes=1))
    world.fire(worker, "initialization_completed")
    traveller.shift(timedelta(minutes=1))
    world.forced(worker, "TERMINATED")
    catch_up(Trends())

    first = MONDAY.replace(second=0)
    assert count(Resolution.MINUTE) == {first + timedelta(minutes=number): 1 for number in range(3)}
    hour, day = first.replace(minute=0), first.replace(hour=0, minute=0)
    assert count(Resolution.HOUR) == {hour: 2, hour + timedelta(hours=1): 1}
    assert count(Resolution.DAY) == {day: 2, day + timedelta(days=1): 1}
    assert TransitionRollUp.objects.aggregate(Sum("overrides"))["overrides__sum"] == len(Resolution)
    assert DwellRollUp.objects.filter(resolution=Resolution.DAY).get().state == "SPAWNING", "of the override is none"

    Trends().tick(first + RETENTION[Resolution.MINUTE] + timedelta(minutes=2))
    assert (len(count(Resolution.MINUTE)), len(count(Resolution.HOUR))) == (1, 2)


def test_events_of_one_second_are_written_together_and_of_two_sequencers_only_once() -> None:
    working = sequencer(Trends())
    for _ in range(3):
        world.run()
        working.run_round()
    assert sum(count(Resolution.DAY).values()) == 1, "the first batch is written at once, the others wait"

    catch_up(Trends())  # another sequencer, which reads what the first one has not written
    (feed,) = working.feeds
    feed.tick(now())
    assert feed.position is None, "the first one has to recover"
    assert sum(count(Resolution.DAY).values()) == head() == 3


def test_what_a_failed_delivery_counted_is_counted_again_only_once() -> None:
    class Failing(Sink):
        name, is_failing = "failing", False

        def deliver(self, batch) -> None:
            if self.is_failing:
                raise IntegrityError("in the middle")

    working = sequencer(Trends(), failing := Failing())
    for failing.is_failing in (False, False, True, False):  # the second event waits in memory, the third is undone
        world.run()
        working.run_round()
    while working.run_round():
        pass
    working.feeds[0].tick(now())
    assert sum(count(Resolution.MINUTE).values()) == head() == 4


@pytest.mark.usefixtures("machines_in_isolation")
def test_waits_and_durations_of_tasks_are_known_by_capability(traveller) -> None:
    worker = world.idle_worker(capabilities=["git", "python"], max_concurrent_tasks=4)
    task = world.queued_task(required_capabilities=["git", "python"], max_retries=0)
    world.queued_task(required_capabilities=["git"])
    traveller.shift(timedelta(seconds=20))
    task = world.fire(task, "worker_started", worker=worker.pk)
    traveller.shift(timedelta(seconds=300))
    world.touched(worker, last_heartbeat=now())
    world.fire(task, "execution_failed", error="exit code 1", attempt=task.attempt)
    catch_up(Trends())

    rows = CapabilityRollUp.objects.filter(resolution=Resolution.HOUR).order_by("capability", "state")
    expected = [("queued", find_bucket(20), 1, 0), ("running", find_bucket(300), 1, 1)]
    for capability in ("git", "python"):
        found = rows.filter(capability=capability).values_list("state", "bucket", "failures").annotate(Sum("count"))
        assert [(state, bucket, number, failed) for state, bucket, failed, number in found] == [
            (state, bucket, number, failed) for state, bucket, number, failed in expected
        ]
    samples = LoadRollUp.objects.filter(resolution=Resolution.HOUR)
    totals = {
        (measure, subject): total for measure, subject, total in samples.values_list("measure", "subject", "total")
    }
    assert totals[("slots", "git")] == totals[("slots", "")] == 4
    assert (totals[("queued", "git")], totals[("queued", "")], ("queued", "python") in totals) == (1, 1, False)


@pytest.mark.usefixtures("machines_in_isolation")
def test_quarantines_and_forced_failures_are_failures_and_the_audit_finds_the_same() -> None:
    world.fire(world.patch(), "validation_failed", error="it does not apply")
    world.forced(world.task(), "failed")
    world.forced(world.task(), "cancelled")
    world.fire(world.running_task(max_retries=0), "execution_failed", error="exit code 1")
    catch_up(Trends())

    failures = history.read_page(history.Filters(failures=True)).events
    assert sorted(each["event"]["to_state"] for each in failures) == ["failed", "failed", "quarantined"]
    rows = TransitionRollUp.objects.filter(resolution=Resolution.MINUTE)
    assert sum(rows.values_list("failures", flat=True)) == 3


@pytest.mark.parametrize("seconds", [0.0, 0.3, 1.0, 7.5, 3600.0, 10**7])
def test_a_bucket_is_at_most_a_fifth_longer_than_the_times_in_it(seconds: float) -> None:
    longest = get_bucket_seconds(find_bucket(seconds))
    assert max(seconds, 1) <= longest < 1.2 * max(seconds, 1)
