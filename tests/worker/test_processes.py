"""A worker as a process: it is killed, stopped, and outlives its server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from statecore import tasks
from statecore.journal import Event
from tests.agent.process import submit, task, wait_for_state
from tests.support import forked
from tests.support import site as sites
from tests.support.site import ROOT, Site
from tests.support.waiting import until

BUILD = {"id": "t1", "required_capabilities": ["build"], "payload": {"target": "all"}, "heartbeat_sec": 2}


class Program:
    def __init__(self, folder: Path, site: Site, token: str) -> None:
        self.folder, self.environ = folder, {**os.environ, "STATECORE_URL": site.url, "STATECORE_TOKEN": token}
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, drain_seconds: float = 30.0) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "tests.worker.program", str(self.folder), str(drain_seconds)]
        with (self.folder / "log").open("ab") as log:
            self.processes.append(forked.Popen(words, cwd=ROOT, env=self.environ, stdout=log, stderr=log))
        return self.processes[-1]

    def wait_for_start(self, attempt: int = 1) -> None:
        until(lambda: (self.folder / f"started-{attempt}").exists())

    def let_it_finish(self) -> None:
        (self.folder / "go").touch()


@pytest.fixture
def program(site: Site, tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path, site, sites.token("agent"))
    yield made
    for process in made.processes:
        process.kill()
        process.wait(20)


def sweep_until_state(name: str, wanted: str) -> None:
    """Runs the sweep that recovers lost tasks and queues retries, until the task is in the state."""

    def sweep_and_check() -> bool:
        tasks.sweep_tasks()
        return bool(task(name).state == wanted)

    until(sweep_and_check)


def count_events(trigger: str) -> int:
    return Event.objects.filter(entity_id="t1", trigger=trigger).count()


def test_the_task_of_a_killed_worker_is_done_by_the_next(program: Program) -> None:
    submit(BUILD)
    first = program.start()
    program.wait_for_start()
    first.kill()
    program.let_it_finish()
    program.start()
    sweep_until_state("t1", "completed")

    assert task("t1").attempt == 2
    assert count_events("execution_completed") == 1


def test_a_stopped_worker_finishes_its_task_and_leaves(program: Program) -> None:
    submit(BUILD, {**BUILD, "id": "t2"})
    process = program.start()
    program.wait_for_start()

    process.send_signal(signal.SIGTERM)
    until(lambda: "finishing the running task" in (program.folder / "log").read_text())
    program.let_it_finish()

    assert process.wait(30) == 0
    done = [each for each in ("t1", "t2") if task(each).state == "completed"]
    assert [task(each).output for each in done] == ["built all\n"]


def test_a_stopped_worker_hands_its_task_back_after_its_limit(program: Program) -> None:
    submit({**BUILD, "max_retries": 1})
    process = program.start(drain_seconds=0.2)
    program.wait_for_start()

    process.send_signal(signal.SIGTERM)

    assert process.wait(30) == 0
    assert (task("t1").state, task("t1").last_error) == ("retrying", "the agent was terminated")
    program.let_it_finish()
    program.start()
    sweep_until_state("t1", "completed")


def test_a_result_is_reported_once_when_the_server_is_back(program: Program, site: Site) -> None:
    submit({**BUILD, "heartbeat_sec": 60})
    program.start()
    program.wait_for_start()
    site.end()
    program.let_it_finish()
    until(lambda: "heartbeats fail" in (program.folder / "log").read_text())
    site.start()

    wait_for_state("t1", "completed")
    assert (task("t1").attempt, count_events("execution_completed")) == (1, 1)
