"""Processes of `manage.py simulate` that are stopped or killed."""

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

from statecore import transitions
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import RECOVERY_WINDOW, Worker
from statecore.operations import integrity
from statecore.scheduling import timers
from tests.crash.conftest import url_of_the_test_database
from tests.support import forked
from tests.support.site import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

COMMAND = [sys.executable, "manage.py", "simulate", "--json", "--agents=4", "--rate=300", "--seed=7", "--failures=0.2"]
ENOUGH = 150  # transitions


@contextmanager
def simulation(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Starts a simulation, waits for its first transitions, and kills it afterwards."""
    environment = {**os.environ, "DATABASE_URL": url_of_the_test_database()}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with forked.Popen([*COMMAND, *options], cwd=ROOT, env=environment, **pipes) as process:
        try:
            wait_for_transitions(process)
            yield process
        finally:
            process.kill()


def wait_for_transitions(process: subprocess.Popen[str]) -> None:
    assert process.stdout
    for line in process.stdout:
        if json.loads(line)["transitions"] >= ENOUGH:
            return
    raise AssertionError(process.stderr and process.stderr.read())


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT], ids=lambda sent: sent.name)
def test_a_stopped_simulation_finishes_or_hands_back_all_work(sent: signal.Signals) -> None:
    with simulation() as process:
        process.send_signal(sent)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    summary = json.loads(output.splitlines()[-1])
    assert summary["kind"] == "summary"
    assert summary["plans"] == Run.objects.filter(retry_of=None).count() == sum(summary["runs"].values())
    assert not Task.objects.filter(state="running").exists()
    assert not Worker.objects.exclude(state="shutdown").exists()
    assert not Run.objects.exclude(state__in=Run.flow.final).exists()
    assert [str(finding) for finding in integrity.check_all()] == []


def sweep() -> None:
    """Runs the sweeps of Celery once."""
    timers.time_out_tasks()
    timers.queue_retries()
    timers.mark_unresponsive_workers()
    timers.end_lost_workers()
    timed_out = TestGate.objects.filter(state="RUNNING", times_out_at__lte=now()).values_list("pk", flat=True)
    transitions.transition_many(TestGate, list(timed_out), "timeout_exceeded", actor=THE_SYSTEM)


def test_the_sweeps_clean_up_after_a_killed_simulation() -> None:
    with simulation("--other-machines=0") as process:
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


def test_the_next_simulation_finishes_the_runs_of_a_killed_one() -> None:
    with simulation("--other-machines=0") as process:
        process.kill()
        process.wait(60)
    left = Run.objects.exclude(state__in=Run.flow.final)
    assert left.exists()
    later = now() + timedelta(minutes=10)
    with time_machine.travel(later, tick=True):
        from statecore.devtools.simulation import Options, Simulation

        Simulation(Options(agents=4, rate=1000, seed=8, runs=5)).run(lambda report: None)
    assert not left.exists()


def test_an_invalid_number_is_refused_with_one_sentence() -> None:
    ended = subprocess.run([*COMMAND, "--agents=none"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "'none' is not a number from 1 to 500" in ended.stderr


def test_a_database_without_tables_is_refused_with_one_sentence(tmp_path: Path) -> None:
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path}/empty.sqlite3"}
    refused = subprocess.run(
        COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert refused.returncode == 1
    assert refused.stderr.strip() == (
        "CommandError: this database is empty: run scripts/up or manage.py migrate first."
    )
