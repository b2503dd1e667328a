"""`statecore.project.process`: its arguments, and its wait for the database."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from statecore.project import environment, process
from tests.support.site import ROOT
from tests.support.waiting import until

pytestmark = pytest.mark.starts_processes

ENVIRONMENT = environment.read({"PORT": "8000"})


def command(*words: str, **variables: str) -> list[str]:
    return process.command(process.read(words), environment.read(variables) if variables else ENVIRONMENT)


def test_port_and_name_are_passed_on() -> None:
    assert command("rest", "--port", "8007")[-1] == "8007"
    assert command("live")[-1] == "8000"
    assert command("worker", "--name", "worker-2")[-1] == "--hostname=worker-2@%h"
    assert command("executors")[-1] == "--hostname=executors@%h"


def test_a_worker_leaves_patches_to_the_executors_if_they_run() -> None:
    assert "--queues=celery,patches" in command("worker")
    assert "--queues=celery,patches" not in command("worker", STATECORE_GATE_COMMANDS="git")


@pytest.mark.parametrize("words", [(), ("cook",), ("rest", "--name", "x"), ("beat", "--port", "1")])
def test_unknown_processes_and_options_are_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        process.read(words)
    assert "usage:" in capsys.readouterr().err


def started(tmp_path: Path, *words: str, database: str) -> subprocess.Popen[str]:
    environ = {**os.environ, "STATECORE_HOME": str(tmp_path / "home"), "DATABASE_URL": database}
    return subprocess.Popen(
        [sys.executable, "-m", "statecore.project.process", *words],
        cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_only_the_first_preparation_resets_the_counters(tmp_path: Path) -> None:
    counts = tmp_path / "home" / "metrics" / "counter_other-1.db"
    counts.parent.mkdir(parents=True)
    counts.touch()
    for words, stays in ((), True), (("--first",), False):
        preparing = started(tmp_path, "prepare", *words, database=f"sqlite:///{tmp_path}/own.sqlite3")
        _out, said = preparing.communicate(timeout=120)
        assert preparing.returncode == 0, said
        assert counts.exists() is stays


def test_the_wait_for_the_database_is_limited(tmp_path: Path) -> None:
    waiting = started(tmp_path, "prepare", "--wait", "0.1", database="sqlite:////nowhere/at/all.sqlite3")
    _out, said = waiting.communicate(timeout=60)

    assert waiting.returncode == 1
    assert "cannot be reached" in said.splitlines()[-1]


def test_a_database_that_starts_late_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    waiting = started(tmp_path, "prepare", "--first", "--wait", "120", database=f"sqlite:///{folder}/own.sqlite3")
    until(lambda: (tmp_path / "home" / "secrets.json").exists() or waiting.poll() is not None, 60)
    assert psutil.Process(waiting.pid).is_running()
    threading.Timer(1.0, folder.mkdir).start()
    _out, said = waiting.communicate(timeout=120)

    assert waiting.returncode == 0, said
    assert (folder / "own.sqlite3").exists()
