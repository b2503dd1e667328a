"""A real process of `manage.py simulate`, stopped and killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from statecore import door, integrity
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import RECOVERY_WINDOW, Worker
from statecore.project.environment import ROOT
from statecore.scheduling import timers
from tests.crash.conftest import url_of_the_test_database

pytestmark = pytest.mark.django_db(transaction=True)

COMMAND = [sys.executable, "manage.py", "simulate", "--json", "--agents=4", "--rate=300", "--seed=7", "--failures=0.2"]
ENOUGH = 150  # moves


@contextmanager
def simulation(*options: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has got going; whatever the test does, it is gone afterwards."""
    environment = {**os.environ, "DATABASE_URL": url_of_the_test_database()}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*COMMAND, *options], cwd=ROOT, env=environment, **pipes) as process:
        try:
            until_it_moves(process)
            yield process
        finally:
            process.kill()


def until_it_moves(process: subprocess.Popen[str]) -> None:
    assert process.stdout
    for line in process.stdout:
        if json.loads(line)["moves"] >= ENOUGH:
            return
    raise AssertionError(process.stderr and process.stderr.read())


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT], ids=lambda asked: asked.name)
def test_asked_to_stop_it_leaves_nothing_in_a_workers_hands(asked: signal.Signals) -> None:
    with simulation() as process:
        process.send_signal(asked)
        said, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (0, "")
    summary = json.loads(said.splitlines()[-1])
    assert summary["kind"] == "summary"
    assert summary["plans"] == Run.objects.filter(retry_of=None).count() == sum(summary["runs"].values())
    assert not Task.objects.filter(state="running").exists()
    assert not Worker.objects.exclude(state="shutdown").exists()
    assert not Run.objects.exclude(state__in=Run.flow.final).exists()
    assert [str(finding) for finding in integrity.check_all()] == []


def sweep() -> None:
    """What Celery does, once."""
    timers.time_out_tasks()
    timers.queue_retries()
    timers.miss_heartbeats()
    timers.give_up_workers()
    over = TestGate.objects.filter(state="RUNNING", times_out_at__lte=now()).values_list("pk", flat=True)
    door.transition_many(TestGate, list(over), "timeout_exceeded", actor=THE_SYSTEM)


def test_killed_it_leaves_what_the_sweeps_clean_up() -> None:
    with simulation("--neighbours=0") as process:
        process.kill()
        process.wait(60)
    assert Worker.objects.exclude(state="shutdown").exists()
    with time_machine.travel(now() + RECOVERY_WINDOW + timedelta(minutes=1), tick=False) as clock:
        sweep()
        clock.shift(RECOVERY_WINDOW)
        sweep()
        assert not Worker.objects.exclude(state="shutdown").exists()
        assert not Task.objects.filter(state__in=("running", "retrying")).exists()
        assert [str(finding) for finding in integrity.check_all()] == []


def test_the_next_simulation_finishes_what_a_killed_one_left() -> None:
    with simulation("--neighbours=0") as process:
        process.kill()
        process.wait(60)
    left = Run.objects.exclude(state__in=Run.flow.final)
    assert left.exists()
    later = now() + timedelta(minutes=10)
    with time_machine.travel(later, tick=True):
        from statecore.simulation import Crowd, Wishes

        Crowd(Wishes(agents=4, rate=1000, seed=8, runs=5)).run(lambda report: None)
    assert not left.exists()


def test_a_wrong_number_is_refused_in_one_sentence() -> None:
    ended = subprocess.run([*COMMAND, "--agents=none"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "'none' is not a number from 1 to 500" in ended.stderr


def test_a_database_without_tables_is_refused_in_one_sentence(tmp_path: Path) -> None:
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path}/empty.sqlite3"}
    refused = subprocess.run(
        COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert refused.returncode == 1
    assert refused.stderr.strip() == (
        "CommandError: this database is empty: scripts/up or manage.py migrate makes its tables."
    )
