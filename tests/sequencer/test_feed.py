"""Sinks that fail and recover, and the lag of each sink."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine
from django.db import IntegrityError, OperationalError, connection
from django.test import Client

from statecore.delivery.sequencer import feed, measure_lag
from statecore.delivery.sinks import Sink
from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.metrics import Metrics
from statecore.journal.position import head
from statecore.kernel.clock import now
from statecore.read_models.metrics import transitions_total
from statecore.records import StateCount
from statecore.records.sink_cursor import get_position
from statecore.storage import triggers
from tests.support import world
from tests.support.sequencer import catch_up, sequencer
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


class RecordingSink(Sink):
    """Records delivered positions, or raises `error` if it is set."""

    name = "keeper"

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.error: Exception | None = None
        self.recoveries = 0

    def recover(self, cursor: int) -> int:
        self.recoveries += 1
        return cursor

    def deliver(self, batch) -> None:
        if self.error:
            raise self.error
        self.positions += [event.position for event in batch]


def test_a_failing_sink_delays_no_other_and_resumes_at_its_position() -> None:
    failing, other = RecordingSink(), Counters()
    working = sequencer(failing, other)
    failing.error = OSError("the disk is full")
    world.workstream()
    working.run_round()
    assert (failing.positions, get_position("counters")) == ([], head())

    failing.error = None
    until(lambda: not working.run_round() and failing.positions)
    assert failing.positions == list(range(1, head() + 1))
    assert failing.recoveries > 1


def test_metrics_count_each_event_once_although_another_sink_fails() -> None:
    created = transitions_total.labels("run", "none", "pending")
    before, failing = created._value.get(), RecordingSink()
    failing.error = OSError("the disk is full")
    working = sequencer(Metrics(), failing)

    for _ in range(3):
        world.run()
        working.run_round()

    assert created._value.get() - before == 3


def test_database_writes_of_a_failing_sink_are_rolled_back() -> None:
    class Half(Counters):
        def deliver(self, batch) -> None:
            super().deliver(batch)
            raise IntegrityError("in the middle")

    world.run()
    sequencer(Half()).run_round()

    assert StateCount.objects.count() == 0
    assert get_position("counters") == 0


def test_a_lost_database_fails_the_whole_round() -> None:
    failing = RecordingSink()
    failing.error = OperationalError("gone")
    world.run()

    with pytest.raises(OperationalError):
        sequencer(failing).run_round()


def test_a_missing_event_stops_the_sinks_but_not_the_sequencer(caplog) -> None:
    world.workstream()
    sequencer().run_round()
    with triggers.disabled(connection), connection.cursor() as cursor:
        cursor.execute("DELETE FROM statecore_event WHERE entity_type = 'run'")
    sink = RecordingSink()
    world.run()
    sequencer(sink).run_round()

    assert (sink.positions, get_position("keeper"), head()) == ([], 0, 3)
    assert "position 1 has no event" in caplog.text


def test_a_long_backlog_is_delivered_in_batches(monkeypatch) -> None:
    monkeypatch.setattr(feed, "BATCH_SIZE", 3)
    for _ in range(4):
        world.workstream()
    sink = RecordingSink()
    working = sequencer(sink)
    rounds = 1
    while working.run_round():
        rounds += 1

    assert sink.positions == list(range(1, 9))
    assert rounds >= 3


def test_lag_is_the_age_of_the_oldest_waiting_event() -> None:
    with time_machine.travel(now(), tick=False) as clock:
        world.run()
        clock.shift(timedelta(seconds=90))
        assert measure_lag() == {"numbering": 90.0}

        sequencer().run_round()
        assert measure_lag() == {"numbering": 0.0}

        catch_up(Counters())
        world.run()
        sequencer().run_round()
        clock.shift(timedelta(seconds=7))
        assert measure_lag() == {"numbering": 0.0, "counters": 7.0}


def test_readiness_names_a_sequencer_that_is_behind(client: Client, redis_server: str) -> None:
    with time_machine.travel(now(), tick=False) as clock:
        world.run()
        assert client.get("/readyz").status_code == 200

        clock.shift(timedelta(minutes=2))
        body = client.get("/readyz").json()
        assert (body["status"], body["failed"]) == ("degraded", ["sequencer"])
        assert "the sequencer is behind" in body["reasons"]["sequencer"]
