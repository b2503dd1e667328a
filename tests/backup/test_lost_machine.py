"""The machine is lost in the middle of a plan, with all that was on it: elsewhere an export is restored and goes on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from api.client import Client
from statecore.project.environment import ROOT
from tests.project.test_supervisor import Site, are_gone
from tests.support.waiting import until

TASKS = [f"t{number}" for number in range(6)]
PLAN = {
    "id": "r",
    "phase": "PH-1",
    "workstreams": [{"id": "w", "tasks": [{"id": name, "timeout_sec": 3600} for name in TASKS]}],
    "start": True,
}


def manage(site: Site, *words: str) -> str:
    command = [sys.executable, str(ROOT / "manage.py"), *words]
    ended = subprocess.run(command, env=site.variables, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.strip()


@contextmanager
def machine(site: Site) -> Iterator[Client]:
    """Everything runs; then it is gone, by kill -9 and without its home."""
    supervisor = site.start()
    processes = [supervisor, *supervisor.children(recursive=True)]
    token = manage(site, "token", "create", "agent", "--user", "operator", "--scope", "operate")
    try:
        with Client(f"http://127.0.0.1:{site.port}", token) as client:
            yield client
    finally:
        for process in processes:
            if process.is_running():
                process.kill()
        supervisor.wait(20)
        until(lambda: are_gone(processes))
        shutil.rmtree(site.variables["STATECORE_HOME"])


def worked(client: Client, worker: str) -> str:
    (task,) = client.claim(worker, wait=20)
    client.complete(task.id, attempt=task.attempt or 1)
    return task.id


@pytest.mark.postgres  # two whole installations: once is enough, and the round trip is tested on both
def test_work_goes_on_elsewhere(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    first, second = Site(tmp_path), Site(tmp_path_factory.mktemp("elsewhere"))
    kept = tmp_path_factory.mktemp("backup")
    with machine(first) as client:
        client.create("phases", id="PH-1")
        client.submit(PLAN)
        worker = client.register(["python"])
        done = {worked(client, worker.id), worked(client, worker.id)}
        (held,) = client.claim(worker.id, wait=20)
        manage(first, "export", "--to", str(kept))
        client.complete(held.id, attempt=held.attempt or 1)  # nobody will ever know

    manage(second, "migrate", "--verbosity=0")
    assert "verified" in manage(second, "restore", str(kept))
    with machine(second) as client:
        assert {task.id for task in client.list("tasks", state="completed")} == done
        # Its agent still holds what it held, and says again what was lost.
        client.complete(held.id, attempt=held.attempt or 1)
        while len(done) < len(TASKS) - 1:
            done.add(worked(client, worker.id))
        until(lambda: client.get("runs", "r").state == "succeeded")
        until(lambda: second.status("/readyz") == 200)
        assert manage(second, "integrity").startswith("0 errors")

    assert done | {held.id} == set(TASKS)
