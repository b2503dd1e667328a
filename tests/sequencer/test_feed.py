"""Sinks that fail and recover, and how far behind they are."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine
from django.db import IntegrityError, OperationalError, connection
from django.test import Client

from statecore.derive.metrics import transitions_total
from statecore.kernel import triggers
from statecore.kernel.clock import now
from statecore.records import StateCount
from statecore.records.position import head
from statecore.records.sink_cursor import place_of
from statecore.sequencer import feed, lag
from statecore.sinks import Sink
from statecore.sinks.counters import Counters
from statecore.sinks.metrics import Metrics
from tests.support import world
from tests.support.sequencer import catch_up, sequencer
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


class Keeper(Sink):
    """Keeps what it is given, unless it is told to fail."""

    name = "keeper"

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.error: Exception | None = None
        self.recoveries = 0

    def recover(self, cursor: int) -> int:
        self.recoveries += 1
        return cursor

    def deliver(self, batch) -> None:
        if self.error:
            raise self.error
        self.kept += [event.position for event in batch]


def test_a_sink_that_fails_holds_up_no_other_and_goes_on_where_it_was() -> None:
    failing, other = Keeper(), Counters()
    working = sequencer(failing, other)
    failing.error = OSError("the disk is full")
    world.workstream()
    working.round()
    assert (failing.kept, place_of("counters")) == ([], head())

    failing.error = None
    until(lambda: not working.round() and failing.kept)
    assert failing.kept == list(range(1, head() + 1))
    assert failing.recoveries > 1


def test_what_is_counted_for_prometheus_is_counted_once_though_a_sink_beside_it_fails() -> None:
    created = transitions_total.labels("run", "none", "pending")
    before, failing = created._value.get(), Keeper()
    failing.error = OSError("the disk is full")
    working = sequencer(Metrics(), failing)

    for _ in range(3):
        world.run()
        working.round()

    assert created._value.get() - before == 3


def test_what_a_failing_sink_wrote_to_the_database_is_undone() -> None:
    class Half(Counters):
        def deliver(self, batch) -> None:
            super().deliver(batch)
            raise IntegrityError("in the middle")

    world.run()
    sequencer(Half()).round()

    assert StateCount.objects.count() == 0
    assert place_of("counters") == 0


def test_a_lost_database_is_everybodys_trouble() -> None:
    failing = Keeper()
    failing.error = OperationalError("gone")
    world.run()

    with pytest.raises(OperationalError):
        sequencer(failing).round()


def test_an_event_that_is_gone_stops_the_sinks_and_not_the_sequencer(caplog) -> None:
    world.workstream()
    sequencer().round()
    with triggers.lowered(connection), connection.cursor() as cursor:
        cursor.execute("DELETE FROM statecore_event WHERE entity_type = 'run'")
    sink = Keeper()
    world.run()
    sequencer(sink).round()

    assert (sink.kept, place_of("keeper"), head()) == ([], 0, 3)
    assert "position 1 has no event" in caplog.text


def test_a_long_backlog_is_delivered_in_batches(monkeypatch) -> None:
    monkeypatch.setattr(feed, "BATCH", 3)
    for _ in range(4):
        world.workstream()
    sink = Keeper()
    working = sequencer(sink)
    rounds = 1
    while working.round():
        rounds += 1

    assert sink.kept == list(range(1, 9))
    assert rounds >= 3


def test_lag_is_the_age_of_the_oldest_that_waits() -> None:
    with time_machine.travel(now(), tick=False) as clock:
        world.run()
        clock.shift(timedelta(seconds=90))
        assert lag() == {"numbering": 90.0}

        sequencer().round()
        assert lag() == {"numbering": 0.0}

        catch_up(Counters())
        world.run()
        sequencer().round()
        clock.shift(timedelta(seconds=7))
        assert lag() == {"numbering": 0.0, "counters": 7.0}


def test_readiness_names_a_sequencer_that_is_behind(client: Client, redis_server: str) -> None:
    with time_machine.travel(now(), tick=False) as clock:
        world.run()
        assert client.get("/readyz").status_code == 200

        clock.shift(timedelta(minutes=2))
        assert client.get("/readyz").json() == {"status": "unavailable", "failed": ["sequencer"]}
