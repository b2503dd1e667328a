"""An agent subprocess, and helpers that submit plans and wait for task states."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from statecore import scheduling, transitions
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from tests.support import forked, world
from tests.support.sequencer import ROOT
from tests.support.waiting import until

FAST = ("--heartbeat", "0.2", "--wait", "5")


class AgentProcess:
    """Runs an agent and writes its standard output and error to files that the test can read."""

    def __init__(self, folder: Path, url: str, token: str, *words: str, name: str = "agent", **environ: str) -> None:
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = forked.Popen(
                [sys.executable, "-m", "statecore_client.cli", "agent", "--name", name, *FAST, *words],
                cwd=ROOT, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                env={**os.environ, "STATECORE_URL": url, "STATECORE_TOKEN": token, **environ},
            )  # fmt: skip

    def read_log(self) -> str:
        return self.err.read_text()

    def read_output(self) -> str:
        return self.out.read_text()

    def wait_for_log(self, words: str, timeout: float = 60.0) -> None:
        until(lambda: words in self.read_log() or not self.is_running(), timeout)
        assert words in self.read_log(), self.read_log()

    def is_running(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 60.0) -> int:
        return self.process.wait(seconds)

    def kill(self) -> None:
        if self.is_running():
            self.process.kill()
        self.process.wait(20)


def submit(*tasks: dict[str, Any], **fields: Any) -> None:
    plan = {
        "id": "r1",
        "phase": world.phase().pk,
        "workstreams": [{"id": "w1", "tasks": list(tasks), **fields}],
        "start": True,
    }
    scheduling.submit_plan(plan, actor=world.operator())


def task(task_id: str) -> Any:
    return Task.objects.get(pk=task_id)


def state(task_id: str) -> str:
    return str(task(task_id).state)


def wait_for_state(task_id: str, wanted: str, timeout: float = 60.0) -> None:
    until(lambda: state(task_id) == wanted, timeout)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def claim_as_w1(task_id: str = "t1") -> None:
    """Register the worker `w1` and have it claim the task."""
    transitions.create(Worker, id="w1", actor=world.AGENT)
    transitions.transition(Worker, "w1", "registration_completed", actor=world.AGENT)
    scheduling.claim("w1", actor=world.AGENT)
    assert state(task_id) == "running"
