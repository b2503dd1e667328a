"""Counts are summed over processes, including killed ones, and reset at start."""

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
from tests.support.databases import create_database
from tests.support.waiting import read_line

pytestmark = pytest.mark.once_on("postgres")

ROOT = Path(__file__).parents[2]

WORK = """
import django; django.setup()
from tests.support import world
for _ in range(3):
    world.fire(world.created("PipelineJob"), "analyze")
world.forced(world.created("IngestionJob"), "succeeded")
from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.metrics import Metrics
from tests.support.sequencer import catch_up
catch_up(Counters(), Metrics())
print("done", flush=True)
import signal; signal.pause()
"""

SCRAPE = """
import django; django.setup()
from django.test import Client
response = Client().get("/metrics", headers={"Authorization": "Bearer TOKEN", "Host": "localhost"})
assert response.status_code == 200, response.status_code
print(response.content.decode())
""".replace("TOKEN", TOKEN)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    url, folder = create_database(tmp_path, migrated=True), tmp_path / "counts"
    folder.mkdir()
    given = {"DATABASE_URL": url, metrics_folder.VARIABLE: str(folder), "STATECORE_METRICS_TOKEN": TOKEN}
    return {**os.environ, **given, "STATECORE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}


def scrape(environment: dict[str, str]) -> Any:
    ended = subprocess.run(
        [sys.executable, "-c", SCRAPE],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return samples(ended.stdout)


def start_worker(environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WORK], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def test_counts_of_two_processes_are_summed_including_a_killed_one(environment: dict[str, str]) -> None:
    """Simulates a sequencer that is killed and replaced."""
    workers: list[subprocess.Popen[str]] = []
    try:
        for _ in range(2):
            workers.append(start_worker(environment))
            assert workers[-1].stdout
            assert read_line(workers[-1].stdout) == "done\n"
        workers[0].kill()
        workers[0].wait(10)
        found = scrape(environment)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate(timeout=10)
    transition = (("entity_type", "pipeline_job"), ("from_state", "PENDING"), ("to_state", "ANALYZING"))
    assert found["state_transitions_total", transition] == 6
    assert found["manual_state_overrides_total", (("entity_type", "ingestion_job"), ("operator", "ada"))] == 2
    source = (("entity_type", "pipeline_job"), ("state", "PENDING"))
    assert found["state_transition_duration_seconds_count", source] == 6
    # Gauges are read from the database, not summed.
    assert found["entity_state", (("entity_type", "pipeline_job"), ("state", "ANALYZING"))] == 6


def test_starting_removes_the_counter_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(metrics_folder.VARIABLE, str(tmp_path / "metrics"))
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "counter_7.db").touch()
    (tmp_path / "metrics" / "notes.txt").touch()
    metrics_folder.prepare(tmp_path / "elsewhere")
    assert [path.name for path in (tmp_path / "metrics").iterdir()] == ["notes.txt"]


def test_the_supervisor_does_not_import_prometheus_client() -> None:
    """prometheus_client reads its folder from the environment once, when it is imported."""
    program = "import sys, statecore.project.supervisor; sys.exit('prometheus_client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=os.environ, check=False, timeout=120)
    assert done.returncode == 0


def test_counter_files_are_named_by_host_and_process(environment: dict[str, str]) -> None:
    """Containers that share the folder all have process id 1."""
    worker = start_worker(environment)
    try:
        assert worker.stdout
        read_line(worker.stdout)
        names = {path.name for path in Path(environment[metrics_folder.VARIABLE]).glob("*.db")}
    finally:
        worker.kill()
        worker.communicate(timeout=10)
    assert f"counter_{socket.gethostname()}-{worker.pid}.db" in names
