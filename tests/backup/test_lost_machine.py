"""A host is lost in the middle of a plan; another host restores an export and finishes the plan."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from statecore_client import Client
from tests.project.test_supervisor import Site, are_gone
from tests.support import forked
from tests.support.site import ROOT
from tests.support.waiting import until

pytestmark = pytest.mark.slow

TASKS = [f"t{number}" for number in range(6)]
PLAN = {
    "id": "r",
    "phase": "PH-1",
    "workstreams": [{"id": "w", "tasks": [{"id": name, "timeout_sec": 3600} for name in TASKS]}],
    "start": True,
}


def manage(site: Site, *words: str) -> str:
    command = [sys.executable, str(ROOT / "manage.py"), *words]
    ended = forked.run(command, env=site.variables, cwd=ROOT, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.strip()


@contextmanager
def doomed_installation(site: Site) -> Iterator[Client]:
    """Run a whole installation, then kill it with SIGKILL and delete its home directory."""
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


def claim_and_complete(client: Client, worker: str) -> str:
    (task,) = client.claim_tasks(worker, wait=20)
    client.complete_task(task.id, attempt=task.attempt or 1)
    return task.id


@pytest.mark.postgres  # starts two installations; test_round_trip.py covers both databases
def test_a_restored_export_continues_the_plan_on_another_host(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first, second = (Site(each, migrated=True) for each in (tmp_path, tmp_path_factory.mktemp("elsewhere")))
    exports = tmp_path_factory.mktemp("backup")
    with doomed_installation(first) as client:
        client.create("phases", id="PH-1")
        client.submit_plan(PLAN)
        worker = client.register_worker(["python"])
        done = {claim_and_complete(client, worker.id), claim_and_complete(client, worker.id)}
        (held,) = client.claim_tasks(worker.id, wait=20)
        manage(first, "export", "--to", str(exports))
        client.complete_task(
            held.id, attempt=held.attempt or 1
        )  # after the export, so the restored host does not know about it

    manage(second, "migrate", "--verbosity=0")
    assert "verified" in manage(second, "restore", str(exports))
    with doomed_installation(second) as client:
        assert {task.id for task in client.list("tasks", state="completed")} == done
        # The agent still holds its lease and repeats the report that was lost.
        client.complete_task(held.id, attempt=held.attempt or 1)
        while len(done) < len(TASKS) - 1:
            done.add(claim_and_complete(client, worker.id))
        until(lambda: client.get("runs", "r").state == "succeeded")
        until(lambda: second.status("/readyz") == 200)
        assert manage(second, "integrity").startswith("0 errors")

    assert done | {held.id} == set(TASKS)
