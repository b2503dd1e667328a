"""Runs the command for one task, under the same guard as a gate's command: nothing of it outlives the agent."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from api.client import Task
from statecore.executors import guard
from statecore.executors.output import Output

from .terminal import Lines, Terminal

CHUNK = 65_536
COMPLETED, FAILED = "execution_completed", "execution_failed"
# A system waits no longer for a file at once than some weeks; a task may take years.
LONGEST_LOOK = 3600.0
# Linux takes no longer a string into an environment.
LONGEST_VARIABLE = 100_000
# The command does what its task says; whatever it needs to call the API with, it is given by its user.
KEPT_BACK = ("STATECORE_TOKEN",)


class NoSuchProgram(Exception):
    """There is nothing to run by that name."""


@dataclass(frozen=True, slots=True)
class Ended:
    exit_code: int
    output: str
    timed_out: bool = False

    def report(self, task: Task, ended_for: str | None) -> tuple[str, dict[str, Any]]:
        """The trigger that says how it went, and its fields."""
        fields = {"attempt": task.attempt, "exit_code": self.exit_code, "output": self.output}
        error = ended_for or self._error(task)
        return (FAILED, {**fields, "error": error}) if error else (COMPLETED, fields)

    def _error(self, task: Task) -> str | None:
        if self.timed_out:
            return f"timed out after {task.timeout_sec:g} s"
        return None if self.exit_code in task.expected_exit_codes else f"exit code {self.exit_code}"


def cannot_start(error: OSError) -> Ended:
    return Ended(guard.NOT_EXECUTABLE, f"the command cannot be started: {error}")


def resolved(command: Sequence[str]) -> list[str]:
    """The command with the path of its program: no shell looks for it later."""
    program = shutil.which(command[0])
    if program is None:
        raise NoSuchProgram(f"{command[0]} is not a program that can be run")
    return [os.path.abspath(program), *command[1:]]  # noqa: PTH100 - a link is run by its own name


def variables(task: Task, worker_id: str) -> dict[str, str]:
    """The environment of the command: the agent's, and the task."""
    environment = {name: value for name, value in os.environ.items() if name not in KEPT_BACK}
    payload = json.dumps(task.payload)
    told = {
        "STATECORE_TASK_ID": task.id,
        "STATECORE_ATTEMPT": str(task.attempt),
        "STATECORE_WORKER_ID": worker_id,
        "STATECORE_WORKSTREAM_ID": task.workstream or "",
        "STATECORE_RUN_ID": task.run or "",
        "STATECORE_TIMEOUT_SEC": f"{task.timeout_sec:g}",
        "STATECORE_PAYLOAD": payload if len(payload) <= LONGEST_VARIABLE else "",
    }
    return environment | told


class Execution:
    """One process group; `end` may be called by any thread at any time."""

    def __init__(self, command: Sequence[str], task: Task, worker_id: str, terminal: Terminal) -> None:
        self.task = task
        self.output, self.lines = Output(), Lines(terminal, task.id)
        self.lock = threading.Lock()
        theirs, self.control = os.pipe()
        try:
            with tempfile.TemporaryFile() as payload:
                payload.write(json.dumps(task.payload).encode())
                payload.seek(0)
                self.process = _started(command, variables(task, worker_id), payload, theirs)
        except OSError:
            self._let_go()
            raise
        finally:
            os.close(theirs)

    def end(self) -> None:
        """Ask the guard to end the whole group: TERM, then KILL."""
        with self.lock, suppress(OSError):
            if self.control >= 0:
                os.write(self.control, b"x")

    def wait(self, seconds: float) -> Ended:
        """Read until the end; past the time the command is ended."""
        until = time.monotonic() + seconds
        stdout = self.process.stdout
        assert stdout is not None  # noqa: S101 - it was asked for
        timed_out = not self._read(stdout, until)
        if timed_out:
            self.end()
            self._read(stdout, time.monotonic() + 2 * guard.GRACE)
        exit_code = self._exit_code(until)
        stdout.close()
        self.lines.close()
        self._let_go()
        return Ended(exit_code, self.output.text(), timed_out)

    def _read(self, stdout: IO[bytes], until: float) -> bool:
        """Whether the output ended in time."""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0:
                if not selector.select(min(left, LONGEST_LOOK)):
                    continue
                data = os.read(stdout.fileno(), CHUNK)
                if not data:
                    return True
                self.output.add(data)
                self.lines.add(data)
        return False

    def _exit_code(self, until: float) -> int:
        # A command may close its output and go on.
        for seconds in (max(0.0, until - time.monotonic()), 2 * guard.GRACE):
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(seconds)
            self.end()
        self.process.kill()
        return self.process.wait()

    def _let_go(self) -> None:
        with self.lock:
            os.close(self.control)
            self.control = -1


def _started(
    command: Sequence[str], environment: dict[str, str], payload: IO[bytes], control: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", guard.__file__, str(control), *command], env=environment, pass_fds=[control],
        stdin=payload, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0, start_new_session=True,
    )  # fmt: skip
