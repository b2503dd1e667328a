"""Runs the command of one task under the process guard, so that no process outlives the agent."""

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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from ..processes import process_guard
from ..processes.output import Output
from ..records import Json, Task
from ..slots.execution import COMPLETED, FAILED, Execution
from ..slots.log_sender import STREAMS
from .terminal import LinePrinter, Terminal

CHUNK = 65_536
OnOutput = Callable[[str, bytes], None]  # is called with the stream and the data
# select() cannot wait for more than some weeks, but a task may take longer.
LONGEST_SELECT = 3600.0
# Linux limits the length of an environment variable.
LONGEST_VARIABLE = 100_000
# The token of the agent, which the command must not use.
WITHHELD = ("STATECORE_TOKEN",)


class NoSuchProgram(Exception):
    """The command does not name a program."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    exit_code: int
    output: str
    timed_out: bool = False

    def build_report(self, task: Task, end_reason: str | None) -> tuple[str, Json]:
        """Returns the trigger that reports the result, and its fields.

        `end_reason` is the error to report if the agent ended the command, None if the command ended normally.
        """
        fields: Json = {"attempt": task.attempt, "exit_code": self.exit_code, "output": self.output}
        error = end_reason or self._find_error(task)
        if end_reason and task.tool:
            fields["tool_failed"] = None  # the exit code says nothing about the tool
        return (FAILED, {**fields, "error": error}) if error else (COMPLETED, fields)

    def _find_error(self, task: Task) -> str | None:
        if self.timed_out:
            return f"timed out after {task.timeout_sec:g} s"
        return None if self.exit_code in task.expected_exit_codes else f"exit code {self.exit_code}"


class FailedStart(Execution):
    """The execution of a command that could not be started."""

    def __init__(self, task: Task, reason: str) -> None:
        self.task = task
        self.result = CommandResult(process_guard.NOT_EXECUTABLE, reason)

    def wait(self, seconds: float) -> CommandResult:
        return self.result


def resolve_program(command: Sequence[str]) -> list[str]:
    """Returns the command with the absolute path of its program; raises NoSuchProgram if there is none."""
    program = shutil.which(command[0])
    if program is None:
        raise NoSuchProgram(f"{command[0]} is not an executable program")
    return [os.path.abspath(program), *command[1:]]  # noqa: PTH100 - a link is run by its own name


def build_environment(task: Task, worker_id: str, more: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of the command: that of the agent, and variables for the task."""
    environment = {name: value for name, value in os.environ.items() if name not in WITHHELD}
    payload, previous = json.dumps(task.payload), json.dumps(task.previous)
    task_variables = {
        "STATECORE_TASK_ID": task.id,
        "STATECORE_ATTEMPT": str(task.attempt),
        "STATECORE_WORKER_ID": worker_id,
        "STATECORE_WORKSTREAM_ID": task.workstream or "",
        "STATECORE_RUN_ID": task.run or "",
        "STATECORE_TIMEOUT_SEC": f"{task.timeout_sec:g}",
        "STATECORE_PAYLOAD": payload if len(payload) <= LONGEST_VARIABLE else "",
        "STATECORE_PREVIOUS": previous if len(previous) <= LONGEST_VARIABLE else "",
    }
    return {**environment, **task_variables, **more}


class CommandExecution(Execution):
    """A running command and its process group. Any thread may call `end` at any time."""

    def __init__(
        self,
        command: Sequence[str],
        task: Task,
        worker_id: str,
        terminal: Terminal,
        *,
        variables: Mapping[str, str],
        on_output: OnOutput,
    ) -> None:
        self.task, self.on_output = task, on_output
        self.output = Output()
        self.printers = {stream: LinePrinter(terminal, task.id) for stream in STREAMS}
        self.lock = threading.Lock()
        guard_end, self.control = os.pipe()
        try:
            with tempfile.TemporaryFile() as payload:
                payload.write(json.dumps(task.payload).encode())
                payload.seek(0)
                environment = build_environment(task, worker_id, variables)
                self.process = _start_guarded(command, environment, payload, guard_end)
        except OSError:
            self._close_control()
            raise
        finally:
            os.close(guard_end)

    def end(self) -> None:
        """Ends the command and every process that it started: TERM, then KILL after a grace period."""
        with self.lock, suppress(OSError):
            if self.control >= 0:
                os.write(self.control, b"x")

    def wait(self, seconds: float) -> CommandResult:
        """Reads the output until the command ends, or ends the command after `seconds`."""
        until = time.monotonic() + seconds
        pipes = {stream: getattr(self.process, stream) for stream in STREAMS}
        timed_out = not self._read(pipes, until)
        if timed_out:
            self.end()
            self._read(pipes, time.monotonic() + 2 * process_guard.GRACE)
        exit_code = self._wait_for_exit_code(until)
        for stream in STREAMS:
            pipes[stream].close()
            self.printers[stream].close()
        self._close_control()
        return CommandResult(exit_code, self.output.text(), timed_out)

    def _read(self, pipes: Mapping[str, IO[bytes]], until: float) -> bool:
        """Reads both streams as they come; returns whether they ended in time."""
        with selectors.DefaultSelector() as selector:
            for stream, pipe in pipes.items():
                selector.register(pipe, selectors.EVENT_READ, stream)
            while (left := until - time.monotonic()) > 0:
                for key, _ready in selector.select(min(left, LONGEST_SELECT)):
                    if data := os.read(key.fd, CHUNK):
                        self._take(key.data, data)
                    else:
                        selector.unregister(key.fileobj)
                if not selector.get_map():
                    return True
        return False

    def _take(self, stream: str, data: bytes) -> None:
        self.output.add(data)
        self.printers[stream].add(data)
        self.on_output(stream, data)

    def _wait_for_exit_code(self, until: float) -> int:
        # The command may have closed its output and still be running.
        for seconds in (max(0.0, until - time.monotonic()), 2 * process_guard.GRACE):
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(seconds)
            self.end()
        self.process.kill()
        return self.process.wait()

    def _close_control(self) -> None:
        with self.lock:
            os.close(self.control)
            self.control = -1


def _start_guarded(
    command: Sequence[str], environment: dict[str, str], payload: IO[bytes], control: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", process_guard.__file__, str(control), *command],
        env=environment, pass_fds=[control],
        stdin=payload, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True,
    )  # fmt: skip
