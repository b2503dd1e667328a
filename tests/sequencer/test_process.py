"""Real processes: one leads, another takes over, and nothing is written twice whenever it is killed."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from statecore import door, integrity
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.records import Numbering, SinkCursor
from statecore.records.position import head
from statecore.sequencer import bell
from statecore.sequencer.bell import Bell
from statecore.sequencer.leadership import Leadership
from statecore.sinks import all_sinks, counters
from tests.conftest import DATABASE
from tests.support import world
from tests.support.sequencer import ROOT, database_url, end, lines, ordered, positions, running, start
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


def all_is_numbered() -> bool:
    return head() == Event.objects.count() > 0


def all_is_delivered() -> bool:
    places = list(SinkCursor.objects.values_list("position", flat=True))
    return len(places) == len(all_sinks()) and set(places) == {head()}


def log(home: Path) -> str:
    return (home / "sequencer.log").read_text()


def steps(count: int) -> None:
    worker = world.fire(world.created("UetWorker", worker_type="test"), "initialization_completed")
    for move in range(count):
        trigger = "task_completed" if move % 2 else "task_assigned"
        door.transition(type(worker), worker.pk, trigger, actor=THE_SYSTEM)


def all_is_whole(home: Path) -> None:
    """Every sink has had every event once: the file says so, and the counters do."""
    told = lines(home)
    assert positions(told) == list(range(1, head() + 1))
    assert [line["event_id"] for line in told] == ordered()
    assert counters.reconcile() == []
    assert integrity.check_all() == []


def test_a_commit_wakes_it_and_term_ends_it(home: Path) -> None:
    with running(home) as process:
        until(lambda: "sequencer_leads" in log(home))
        steps(5)
        until(all_is_numbered)
        until(all_is_delivered)

        assert end(process) == 0
    all_is_whole(home)


def test_two_at_once_one_leads_and_the_other_takes_over(home: Path) -> None:
    with running(home) as first:
        until(lambda: "sequencer_leads" in log(home))
        with running(home) as second:
            steps(5)
            until(all_is_numbered)
            assert log(home).count("sequencer_leads") == 1

            end(first, signal.SIGKILL)
            steps(5)

            until(all_is_numbered)
            until(all_is_delivered)
            assert log(home).count("sequencer_leads") == 2
            assert end(second) == 0
    all_is_whole(home)


def test_killed_at_random_nothing_is_missing_and_nothing_twice(home: Path) -> None:
    moments = random.Random(DATABASE)
    for _life in range(4):
        lives = log(home).count("sequencer_leads") if (home / "sequencer.log").exists() else 0
        process = start(home)
        until(lambda lives=lives: log(home).count("sequencer_leads") > lives)
        deadline = time.monotonic() + moments.uniform(0.02, 0.6)
        while time.monotonic() < deadline:
            steps(3)
        end(process, signal.SIGKILL)
        if moments.random() < 0.5:
            with (home / "transitions.jsonl").open("ab") as file:
                file.write(b'{"position":')  # what a write that was cut short leaves
    with running(home) as process:
        until(all_is_numbered)
        until(all_is_delivered)
        end(process)
    all_is_whole(home)


def test_a_bell_that_nobody_hears_costs_a_moment(home: Path) -> None:
    with running(home):
        until(lambda: "sequencer_leads" in log(home))
        (home / "sequencer.sock").unlink()
        steps(1)
        until(all_is_delivered)


@pytest.mark.postgres
def test_a_leader_whose_connection_is_cut_leads_again(home: Path) -> None:
    from django.db import connection

    with running(home):
        until(lambda: "sequencer_leads" in log(home))
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks "
                "WHERE locktype = 'advisory' AND pid <> pg_backend_pid() "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        steps(3)
        until(all_is_numbered)
        assert log(home).count("sequencer_leads") == 2
        assert Numbering.objects.get().head == Event.objects.count()


def test_a_deposed_leader_leaves_the_bell_of_its_successor_alone(home: Path) -> None:
    deposed = Bell()
    successor = Bell()
    deposed.close()

    bell.ring()

    assert select.select([successor.socket], [], [], 0)[0]
    successor.close()
    bell.ring()  # nobody hears it, and nobody minds


GIVES_UP = """
import django
django.setup()
from django.db import connection
from statecore.sequencer.leadership import Leadership
leadership = Leadership()
assert leadership.take()
leadership.give_up()
connection.ensure_connection()
input("gave up")
"""


@pytest.mark.postgres
def test_who_gives_up_the_leadership_gives_it_up_with_a_pool_too(home: Path) -> None:
    environ = {**os.environ, "DATABASE_URL": database_url(), "STATECORE_HOME": str(home), "PYTHONPATH": str(ROOT)}
    pooled = environ | {"STATECORE_DATABASE_POOL": "2", "DJANGO_SETTINGS_MODULE": "statecore.project.settings"}
    with subprocess.Popen(
        [sys.executable, "-c", GIVES_UP], env=pooled, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.read(len("gave up")) == "gave up"
        other = Leadership()
        assert other.take()
        other.give_up()
        process.communicate("\n", timeout=20)
