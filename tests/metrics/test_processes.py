"""Counts are added up over processes, also over those that were killed, and begin anew with the program."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from statecore.project import metrics_folder
from tests.metrics.test_metrics import TOKEN, samples
from tests.support.databases import fresh_url
from tests.support.waiting import line_of

ROOT = Path(__file__).parents[2]

WORK = """
import django; django.setup()
from tests.support import world
for _ in range(3):
    world.fire(world.created("PipelineJob"), "analyze")
world.forced(world.created("IngestionJob"), "succeeded")
from statecore.sinks.counters import Counters
from statecore.sinks.metrics import Metrics
from tests.support.sequencer import catch_up
catch_up(Counters(), Metrics())
print("done", flush=True)
import signal; signal.pause()
"""

ASK = """
import django; django.setup()
from django.test import Client
answer = Client().get("/metrics", headers={"Authorization": "Bearer TOKEN", "Host": "localhost"})
assert answer.status_code == 200, answer.status_code
print(answer.content.decode())
""".replace("TOKEN", TOKEN)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    url, folder = fresh_url(tmp_path), tmp_path / "counts"
    folder.mkdir()
    given = {"DATABASE_URL": url, metrics_folder.VARIABLE: str(folder), "STATECORE_METRICS_TOKEN": TOKEN}
    found = {**os.environ, **given, "STATECORE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity=0"], cwd=ROOT, env=found, check=True, timeout=120
    )
    return found


def asked(environment: dict[str, str]) -> Any:
    said = subprocess.run(
        [sys.executable, "-c", ASK], cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=120
    )
    return samples(said.stdout)


def started(environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WORK], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def test_two_processes_are_added_up_and_the_dead_still_count(environment: dict[str, str]) -> None:
    """One sequencer after the other: what the first has counted before it was killed is not lost."""
    workers: list[subprocess.Popen[str]] = []
    try:
        for _ in range(2):
            workers.append(started(environment))
            assert workers[-1].stdout
            assert line_of(workers[-1].stdout) == "done\n"
        workers[0].kill()
        workers[0].wait(10)
        found = asked(environment)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate(timeout=10)
    moved = (("entity_type", "pipeline_job"), ("from_state", "PENDING"), ("to_state", "ANALYZING"))
    assert found["state_transitions_total", moved] == 6
    assert found["manual_state_overrides_total", (("entity_type", "ingestion_job"), ("operator", "ada"))] == 2
    left = (("entity_type", "pipeline_job"), ("state", "PENDING"))
    assert found["state_transition_duration_seconds_count", left] == 6
    # Read from the database, not added up.
    assert found["entity_state", (("entity_type", "pipeline_job"), ("state", "ANALYZING"))] == 6


def test_a_new_start_begins_with_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(metrics_folder.VARIABLE, str(tmp_path / "metrics"))
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "counter_7.db").touch()
    (tmp_path / "metrics" / "notes.txt").touch()
    metrics_folder.prepare(tmp_path / "elsewhere")
    assert [path.name for path in (tmp_path / "metrics").iterdir()] == ["notes.txt"]


def test_the_supervisor_chooses_the_folder_before_anything_counts() -> None:
    """prometheus_client looks for it once, when it is imported."""
    program = "import sys, statecore.project.supervisor; sys.exit('prometheus_client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=os.environ, check=False, timeout=120)
    assert done.returncode == 0


def test_containers_that_share_the_folder_have_files_of_their_own(environment: dict[str, str]) -> None:
    """All of them have a process 1, so the file is named by the host as well."""
    worker = started(environment)
    try:
        assert worker.stdout
        line_of(worker.stdout)
        names = {path.name for path in Path(environment[metrics_folder.VARIABLE]).glob("*.db")}
    finally:
        worker.kill()
        worker.communicate(timeout=10)
    assert f"counter_{socket.gethostname()}-{worker.pid}.db" in names
