"""Sequencer processes: one leads, another takes over, and a kill causes no duplicate."""

from __future__ import annotations

import os
import random
import select
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from annotated_types import Le
from django.db.models import Sum

from statecore import transitions
from statecore.delivery.sequencer import wakeup
from statecore.delivery.sequencer.process import STANDBY_SECONDS
from statecore.delivery.sequencer.wakeup import WakeupListener
from statecore.delivery.sinks import counters, create_sinks
from statecore.delivery.sinks.trends import Trends
from statecore.journal import Event, Numbering
from statecore.journal.home_files import list_tampered
from statecore.journal.position import head
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.operations import integrity
from statecore.project.environment import Environment
from statecore.records import LeaderLease, SinkCursor, TransitionCount, TransitionRollUp, leader_lease
from statecore.records.roll_up import Resolution
from tests.conftest import DATABASE
from tests.support import world
from tests.support.sequencer import (
    end,
    lines,
    ordered,
    positions,
    running,
    sequencer,
    start,
)
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


def all_is_numbered() -> bool:
    return head() == Event.objects.count() > 0


def all_is_delivered() -> bool:
    places = list(SinkCursor.objects.values_list("position", flat=True))
    return len(places) == len(create_sinks()) and set(places) == {head()}


def log(home: Path) -> str:
    return (home / "sequencer.log").read_text()


def transition_worker(count: int) -> None:
    worker = world.fire(world.created("UetWorker", worker_type="test"), "initialization_completed")
    for number in range(count):
        trigger = "task_completed" if number % 2 else "task_assigned"
        transitions.transition(type(worker), worker.pk, trigger, actor=THE_SYSTEM)


def assert_all_delivered_once(home: Path) -> None:
    """Assert that every sink received every event once, from the journal file and the counters."""
    written = lines(home)
    assert positions(written) == list(range(1, head() + 1))
    assert [line["event_id"] for line in written] == ordered()
    assert counters.reconcile() == []
    assert_rolled_up_once()
    assert integrity.check_all() == []


def assert_rolled_up_once() -> None:
    """Assert that the roll-ups of each resolution contain every transition once, also those of the last second."""
    working = sequencer(Trends())
    while working.run_round():
        pass
    working.feeds[0].tick(now())
    key = ("entity_type", "from_state", "to_state")
    counts = sorted(TransitionCount.objects.values_list(*key, "count"))
    for resolution in Resolution:
        rows = TransitionRollUp.objects.filter(resolution=resolution).order_by().values_list(*key)
        assert sorted(rows.annotate(Sum("count"))) == counts


def test_a_commit_wakes_the_sequencer_and_sigterm_stops_it(home: Path) -> None:
    with running(home) as process:
        until(lambda: "sequencer_leads" in log(home))
        transition_worker(5)
        until(all_is_numbered)
        until(all_is_delivered)

        assert end(process) == 0
    assert_all_delivered_once(home)


def test_a_deleted_or_truncated_journal_file_is_repaired_while_the_process_runs(home: Path) -> None:
    path = home / "transitions.jsonl"
    with running(home) as process:
        for number, damage in enumerate((path.unlink, lambda: os.truncate(path, 100)), 1):
            transition_worker(5)
            until(all_is_numbered)
            until(all_is_delivered)
            whole = path.read_bytes()
            damage()
            until(lambda number=number: len(list_tampered()) == number)
            until(lambda whole=whole: path.exists() and path.read_bytes() == whole)
        transition_worker(5)
        until(all_is_numbered)
        until(all_is_delivered)
        assert end(process) == 0
    assert log(home).count("journal_file_tampered") == 2
    for kept in list_tampered():
        kept.unlink()
    assert_all_delivered_once(home)


def test_a_second_sequencer_takes_over_from_a_killed_leader(home: Path) -> None:
    with running(home) as first:
        until(lambda: "sequencer_leads" in log(home))
        with running(home) as second:
            transition_worker(5)
            until(all_is_numbered)
            assert log(home).count("sequencer_leads") == 1

            end(first, signal.SIGKILL)
            transition_worker(5)

            until(all_is_numbered)
            until(all_is_delivered)
            assert log(home).count("sequencer_leads") == 2
            assert end(second) == 0
    assert_all_delivered_once(home)


def freeze(process: subprocess.Popen[bytes]) -> None:
    """Stops a process as if it hung, but on SQLite not while it has the lock of the database."""
    from django.db import connection

    while True:
        process.send_signal(signal.SIGSTOP)
        if connection.vendor == "postgresql":
            return
        with closing(sqlite3.connect(connection.settings_dict["NAME"], timeout=1, isolation_level=None)) as probe:
            try:
                probe.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                process.send_signal(signal.SIGCONT)


def test_a_leader_that_hangs_is_replaced_and_writes_nothing_afterwards(home: Path) -> None:
    with running(home, STATECORE_LEADER_SECONDS="1") as first:
        until(lambda: "sequencer_leads" in log(home))
        transition_worker(3)
        until(all_is_numbered)
        until(all_is_delivered)
        freeze(first)
        with running(home) as second:
            transition_worker(5)
            until(all_is_numbered)
            until(all_is_delivered)
            lease = LeaderLease.objects.get(name="sequencer")
            assert lease.pid == second.pid

            first.send_signal(signal.SIGCONT)
            until(lambda: "sequencer_replaced" in log(home))
            transition_worker(5)
            until(all_is_numbered)
            until(all_is_delivered)
            assert LeaderLease.objects.get(name="sequencer").term == lease.term
            assert (end(first), end(second)) == (0, 0)
    assert "tampered" not in log(home)
    assert_all_delivered_once(home)


def test_a_hung_leader_is_replaced_within_15_seconds() -> None:
    """It last renewed the lease when it began to hang. Without a transaction in progress nothing else delays it."""
    limits = Environment.model_fields["leader_seconds"].metadata
    longest = next(each.le for each in limits if isinstance(each, Le))
    assert longest + STANDBY_SECONDS < 15
    assert leader_lease.MAX_IDLE_SECONDS + STANDBY_SECONDS < 15


def test_killed_at_random_no_event_is_missing_or_duplicated(home: Path) -> None:
    moments = random.Random(DATABASE)
    for _round in range(4):
        leaderships = log(home).count("sequencer_leads") if (home / "sequencer.log").exists() else 0
        process = start(home)
        until(lambda leaderships=leaderships: log(home).count("sequencer_leads") > leaderships)
        deadline = time.monotonic() + moments.uniform(0.02, 0.6)
        while time.monotonic() < deadline:
            transition_worker(3)
        end(process, signal.SIGKILL)
        if moments.random() < 0.5:
            with (home / "transitions.jsonl").open("ab") as file:
                file.write(b'{"position":')  # as left by an interrupted write
    with running(home) as process:
        until(all_is_numbered)
        until(all_is_delivered)
        end(process)
    assert_all_delivered_once(home)


def test_a_lost_wake_up_is_harmless(home: Path) -> None:
    with running(home):
        until(lambda: "sequencer_leads" in log(home))
        (home / "sequencer.sock").unlink()
        transition_worker(1)
        until(all_is_delivered)


@pytest.mark.postgres
def test_a_leader_with_a_cut_connection_leads_again(home: Path) -> None:
    from django.db import connection

    with running(home):
        until(lambda: "sequencer_leads" in log(home))
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        transition_worker(3)
        until(all_is_numbered)
        assert log(home).count("sequencer_leads") == 2
        assert Numbering.objects.get().head == Event.objects.count()


def test_a_deposed_leader_keeps_its_successors_wake_up_socket(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeup, "SPARED_SECONDS", 0.0)  # as if this process had sent none for a while
    deposed = WakeupListener()
    successor = WakeupListener()
    deposed.close()

    wakeup.wake_sequencer()

    assert select.select([successor.socket], [], [], 0)[0]
    successor.close()
    wakeup.wake_sequencer()  # a wake-up without a listener is harmless
