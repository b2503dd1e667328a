"""Execution of one command without a shell, in a clean environment, with a timeout and bounded output.

The command runs under `process_guard`, so that no process it starts outlives the timeout, the command or the runner.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from statecore_client.processes import process_guard
from statecore_client.processes.output import LIMIT, Output
from statecore_client.processes.process_guard import GRACE, NOT_EXECUTABLE

GUARD = Path(process_guard.__file__)
STOPPED = 143  # 128 + SIGTERM, as a shell reports a terminated command
CHUNK = 65_536
# Seconds between two checks of the limits.
TICK = 0.2
TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class Result:
    exit_code: int
    stdout: str = ""
    stderr: str = ""
    duration_sec: float = 0.0
    # The limit at which the command was ended, as a predicate: "timed out".
    excess: str = ""
    # The command ended because the worker is stopping.
    stopped: bool = False
    # False if the command was not started.
    ran: bool = True

    @property
    def timed_out(self) -> bool:
        return self.excess == TIMED_OUT

    @property
    def completed(self) -> bool:
        """Whether the exit code is the result of the command, and not of the runner."""
        return self.ran and not self.excess and not self.stopped

    def describe(self) -> str:
        """Return how the command ended, as a predicate: "ended with exit code 1"."""
        if self.excess:
            return self.excess
        return "was stopped" if self.stopped else f"ended with exit code {self.exit_code}"


class Control:
    """The pipe to a guard. Writing to it or closing it, also by the death of this process, ends the command."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.stopped = False

    def end(self) -> None:
        with suppress(BrokenPipeError):  # the guard has ended
            os.write(self.write_end, b"x")


class Runners:
    """The running commands of this process, so that a stopping worker can end them."""

    def __init__(self) -> None:
        # Reentrant, because `stop` may be called by a signal handler that interrupts the holder.
        self.lock = threading.RLock()
        self.controls: set[Control] = set()
        self.stopping = False

    def stop(self) -> None:
        with self.lock:
            self.stopping = True
            for control in self.controls:
                control.stopped = True
                control.end()

    @contextmanager
    def control(self) -> Iterator[Control]:
        control = Control()
        with self.lock:
            # In this order: a later `stop` finds the control, and an earlier one has set `stopping`.
            self.controls.add(control)
            control.stopped = control.stopped or self.stopping
        try:
            yield control
        finally:
            with self.lock:
                self.controls.discard(control)
            os.close(control.write_end)


runners = Runners()


def run(
    arguments: Sequence[str],
    *,
    folder: Path,
    timeout: float,
    extra: Mapping[str, str] | None = None,
    feed: str = "",
    keep: Iterable[int] = (),
    limit: int = LIMIT,
    find_excess: Callable[[], str] = str,
    umask: int = -1,
) -> Result:
    """Run a program by its absolute path.

    `keep` lists descriptors that stay open until its last process has ended. `find_excess` is called several times a
    second; the command is ended when it returns a limit that was exceeded.
    """
    started = time.monotonic()
    with runners.control() as control, _open_input(feed) as source:
        try:
            if control.stopped:
                return Result(STOPPED, stderr="the worker is stopping", stopped=True, ran=False)
            process = _start(arguments, folder, extra or {}, source, [control.read_end, *keep], umask)
        except OSError as error:
            sentence = f"{arguments[0]} cannot be started in {folder}: {error.strerror or error}"
            return Result(NOT_EXECUTABLE, stderr=sentence, ran=False)
        finally:
            os.close(control.read_end)
        with process:
            outputs = Output(limit), Output(limit)
            excess = _read_outputs(process, outputs, started + timeout, control, find_excess)
            _wait(process)
    stdout, stderr = (output.text() for output in outputs)
    duration = round(time.monotonic() - started, 3)
    return Result(process.returncode, stdout, stderr, duration, excess, stopped=control.stopped and not excess)


def clean_environment() -> dict[str, str]:
    """Return an environment without the database address, keys and tokens of this process."""
    return {"PATH": os.environ.get("PATH") or os.defpath, "HOME": "/nonexistent", "LANG": "C.UTF-8"}


def _start(
    arguments: Sequence[str],
    folder: Path,
    extra: Mapping[str, str],
    source: IO[bytes] | int,
    descriptors: list[int],
    umask: int,
) -> subprocess.Popen[bytes]:
    guard = [sys.executable, "-I", "-S", str(GUARD), ",".join(map(str, descriptors))]
    return subprocess.Popen(
        [*guard, *arguments], cwd=folder, env={**clean_environment(), **extra}, pass_fds=descriptors, bufsize=0,
        stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, umask=umask,
    )  # fmt: skip


@contextmanager
def _open_input(text: str) -> Iterator[IO[bytes] | int]:
    """Use a file, because writing to the pipe of a command that does not read its input would block."""
    if not text:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def _read_outputs(
    process: subprocess.Popen[bytes],
    outputs: tuple[Output, Output],
    deadline: float,
    control: Control,
    find_excess: Callable[[], str],
) -> str:
    """Read until the output is closed and the command has ended. At a limit, end it and return the limit."""
    excess, abandon_at = "", float("inf")
    with selectors.DefaultSelector() as selector:
        for stream, output in zip((process.stdout, process.stderr), outputs, strict=True):
            selector.register(stream, selectors.EVENT_READ, output)  # type: ignore[arg-type]
        while selector.get_map() or process.poll() is None:
            left = deadline - time.monotonic()
            if not excess and (excess := TIMED_OUT if left <= 0 else find_excess()):
                abandon_at = time.monotonic() + 2 * GRACE
                control.end()
            if time.monotonic() >= abandon_at:
                break
            _read_available(selector, process, TICK if excess else min(left, TICK))
    return excess


def _read_available(selector: selectors.BaseSelector, process: subprocess.Popen[bytes], wait: float) -> None:
    if not selector.get_map():  # a command may close its output and continue
        with suppress(subprocess.TimeoutExpired):
            process.wait(wait)
    for key, _ in selector.select(wait) if selector.get_map() else ():
        data = os.read(key.fd, CHUNK)
        key.data.add(data)
        if not data:
            selector.unregister(key.fileobj)


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(2 * GRACE)
    except subprocess.TimeoutExpired:  # the guard hangs; the command dies with it
        with suppress(ProcessLookupError):
            process.kill()
