"""One agent in a process of its own, and plans for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from statecore import door, scheduling
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from tests.support import world
from tests.support.sequencer import ROOT
from tests.support.waiting import until


class AgentProcess:
    """Its standard output and error are kept in files, to be read while it lives."""

    def __init__(self, folder: Path, url: str, token: str, *words: str, name: str = "agent", **environ: str) -> None:
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "api.cli", "agent", "--name", name, "--heartbeat", "0.2", "--wait", "5", *words],
                cwd=ROOT, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                env={**os.environ, "STATECORE_URL": url, "STATECORE_TOKEN": token, **environ},
            )  # fmt: skip

    def said(self) -> str:
        return self.err.read_text()

    def showed(self) -> str:
        return self.out.read_text()

    def says(self, words: str, timeout: float = 60.0) -> None:
        until(lambda: words in self.said() or not self.lives(), timeout)
        assert words in self.said(), self.said()

    def lives(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 60.0) -> int:
        return self.process.wait(seconds)

    def kill(self) -> None:
        if self.lives():
            self.process.kill()
        self.process.wait(20)


def submit(*tasks: dict[str, Any], **fields: Any) -> None:
    plan = {
        "id": "r1",
        "phase": world.phase().pk,
        "workstreams": [{"id": "w1", "tasks": list(tasks), **fields}],
        "start": True,
    }
    scheduling.submit(plan, actor=world.operator())


def task(task_id: str) -> Any:
    return Task.objects.get(pk=task_id)


def state(task_id: str) -> str:
    return str(task(task_id).state)


def reaches(task_id: str, wanted: str, timeout: float = 60.0) -> None:
    until(lambda: state(task_id) == wanted, timeout)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def running(task_id: str = "t1") -> None:
    """Claimed by a worker of the test's own, and running."""
    door.create(Worker, id="w1", actor=world.AGENT)
    door.transition(Worker, "w1", "registration_completed", actor=world.AGENT)
    scheduling.claim("w1", actor=world.AGENT)
    assert state(task_id) == "running"
