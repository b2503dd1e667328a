"""Expected durations are learnt from past transitions, where a state has no limit of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from statecore.delivery.sinks import alert_rules
from statecore.delivery.sinks.trends import Trends
from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.read_models import stuck
from statecore.records import DwellRollUp
from statecore.records.roll_up import Resolution, find_bucket
from statecore.scheduling import deadlines, expectations
from statecore.scheduling.expectations import LEARNT_FROM, MIN_SAMPLES, expected_duration
from tests.support import world
from tests.support.sequencer import catch_up

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("machines_in_isolation")]
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def fresh_cache() -> Iterator[None]:
    expectations.cache.clear()
    yield
    expectations.cache.clear()
    expectations.cache.learnt = {}


def learn(entity_type: str, state: str, *, seconds: float, samples: int = MIN_SAMPLES) -> None:
    day, bucket = {"resolution": Resolution.DAY, "start": Resolution.DAY.truncate(now())}, find_bucket(seconds)
    DwellRollUp.objects.create(**day, entity_type=entity_type, state=state, bucket=bucket, count=samples)
    expectations.cache.clear()


def expected(entity_type: str, state: str) -> timedelta | None:
    return expected_duration(registry.flow(entity_type), state)


def test_it_is_learnt_how_long_entities_stay_and_forgotten_after_two_weeks(clock) -> None:
    for _ in range(MIN_SAMPLES):
        workstream = world.workstream()
        clock.shift(timedelta(minutes=30))
        world.fire(workstream, "tasks_created")
    world.forced(world.workstream(), "ready")
    catch_up(Trends())
    expectations.cache.clear()

    days = DwellRollUp.objects.filter(resolution=Resolution.DAY, state="planned")
    assert sum(days.values_list("count", flat=True)) == MIN_SAMPLES
    # The declared deadline is 24 hours: the learnt one is about three times half an hour, but at least a quarter.
    assert expected("workstream", "planned") == timedelta(hours=6)
    clock.shift(LEARNT_FROM + timedelta(days=1))
    expectations.cache.clear()
    assert expected("workstream", "planned") == 24 * HOUR


def test_an_entity_is_stuck_when_it_takes_much_longer_than_others(later) -> None:
    workstream = world.workstream()
    learn("workstream", "planned", seconds=2.5 * 3600)
    later(hours=9)

    (item,) = stuck.list_stuck(entity_type="workstream")
    assert (item.entity.pk, item.deadline) == (workstream.pk, expected("workstream", "planned"))
    assert 7 * HOUR < item.deadline < 9 * HOUR
    assert stuck.explain(type(workstream), workstream.pk).as_dict()["overdue_seconds"] == item.overdue.total_seconds()
    assert not deadlines.is_stuck(workstream, now()), "recoveries keep the declared deadline"
    assert [each.key for each in alert_rules.find_stuck(now())] == []
    later(hours=9)
    assert [each.key for each in alert_rules.find_stuck(now())] == ["workstream.planned"]


def test_an_entity_is_not_stuck_if_others_take_as_long(later) -> None:
    world.workstream()
    learn("workstream", "planned", seconds=24 * 3600)
    later(hours=30)
    assert stuck.list_stuck(entity_type="workstream") == []


def test_few_samples_change_nothing() -> None:
    learn("workstream", "planned", seconds=3600, samples=MIN_SAMPLES - 1)
    assert expected("workstream", "planned") == 24 * HOUR


def test_an_expectation_is_limited_by_the_declared_deadline() -> None:
    learn("workstream", "planned", seconds=1)
    learn("run", "pending", seconds=10**7)
    assert (expected("workstream", "planned"), expected("run", "pending")) == (6 * HOUR, 240 * HOUR)


def test_a_backlog_is_not_stuck_because_queues_were_short_before() -> None:
    learn("task", "queued", seconds=1)
    assert expected("task", "queued") == timedelta(minutes=10)
    learn("task", "queued", seconds=1800, samples=100 * MIN_SAMPLES)
    assert expected("task", "queued") > timedelta(minutes=90)


@pytest.mark.parametrize(
    ("entity_type", "state"),
    [("task", "running"), ("test_gate", "RUNNING"), ("workstream", "executing"), ("run", "running")],
)
def test_timeouts_heartbeats_and_progress_of_parts_are_not_replaced(entity_type: str, state: str) -> None:
    learn(entity_type, state, seconds=1)
    assert expected(entity_type, state) == registry.flow(entity_type).deadline(state)


def test_a_setting_has_the_last_word(settings) -> None:
    learn("workstream", "planned", seconds=7200)
    settings.STATECORE_DEADLINES = {"workstream.planned": 600.0}
    assert expected("workstream", "planned") == timedelta(minutes=10)


def test_expectations_cost_one_query_a_minute() -> None:
    learn("workstream", "planned", seconds=7200)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        for flow in registry.flows():
            for state in flow.states:
                expected_duration(flow, state)
    assert len(queries) == 1
