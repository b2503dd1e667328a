"""Running one command: an argument list, never a shell; a clean environment; a time-out; output bounded.

The command runs under a guard (guard.py), so that nothing it starts outlives the time-out, the end of the command
or the runner itself.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from django.conf import settings

from .guard import GRACE, NOT_EXECUTABLE
from .output import LIMIT, Output

GUARD = Path(__file__).with_name("guard.py")
STOPPED = 143  # 128 + SIGTERM: what a command ended with that was asked to end
CHUNK = 65_536
# A system waits no longer for a file at once than some weeks; a command may be given years.
LONGEST_LOOK = 3600.0


@dataclass(frozen=True, slots=True)
class Result:
    exit_code: int
    stdout: str = ""
    stderr: str = ""
    duration_sec: float = 0.0
    timed_out: bool = False
    # The runner was asked to stop, and ended the command for that reason alone.
    stopped: bool = False
    # False where there was nothing to run, or no way to start it.
    ran: bool = True

    def told(self) -> str:
        """How it ended, as the rest of a sentence."""
        if self.timed_out:
            return "ran out of time"
        return "was stopped" if self.stopped else f"ended with exit code {self.exit_code}"


class Control:
    """The pipe by which a guard is told to end its command; closing it, or dying, says the same."""

    def __init__(self) -> None:
        self.theirs, self.ours = os.pipe()
        self.stopped = False

    def end(self) -> None:
        with suppress(BrokenPipeError):  # it has ended already
            os.write(self.ours, b"x")


class Runners:
    """The commands under way in this process, so that a worker that is asked to stop can end them."""

    def __init__(self) -> None:
        # Reentrant: the one who asks may be a signal handler that interrupts us.
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
            # In this order: whoever asks to stop from now on finds it, and whoever did before is seen here.
            self.controls.add(control)
            control.stopped = control.stopped or self.stopping
        try:
            yield control
        finally:
            with self.lock:
                self.controls.discard(control)
            os.close(control.ours)


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
) -> Result:
    """Run a program by its absolute path; `keep` names descriptors that stay open until the last process is gone."""
    started = time.monotonic()
    with runners.control() as control, _fed(feed) as source:
        try:
            if control.stopped:
                return Result(STOPPED, stderr="the worker is stopping", stopped=True, ran=False)
            process = _start(arguments, folder, extra or {}, source, [control.theirs, *keep])
        except OSError as error:
            said = f"{arguments[0]} cannot be started in {folder}: {error.strerror or error}"
            return Result(NOT_EXECUTABLE, stderr=said, ran=False)
        finally:
            os.close(control.theirs)
        with process:
            outputs = Output(limit), Output(limit)
            timed_out = _listen(process, outputs, started + timeout, control)
            _wait(process)
    stdout, stderr = (output.text() for output in outputs)
    ran = round(time.monotonic() - started, 3)
    return Result(process.returncode, stdout, stderr, ran, timed_out, stopped=control.stopped and not timed_out)


def clean_environment() -> dict[str, str]:
    """Nothing of ours: no database address, no key, no token."""
    home = settings.STATECORE_HOME / "commands"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {"PATH": os.environ.get("PATH") or os.defpath, "HOME": str(home), "LANG": "C.UTF-8"}


def _start(
    arguments: Sequence[str], folder: Path, extra: Mapping[str, str], source: IO[bytes] | int, descriptors: list[int]
) -> subprocess.Popen[bytes]:
    guard = [sys.executable, "-I", "-S", str(GUARD), ",".join(map(str, descriptors))]
    return subprocess.Popen(
        [*guard, *arguments], cwd=folder, env={**clean_environment(), **extra}, pass_fds=descriptors, bufsize=0,
        stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


@contextmanager
def _fed(text: str) -> Iterator[IO[bytes] | int]:
    """A file rather than a pipe: a command that does not read its input cannot hold anybody up."""
    if not text:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def _listen(
    process: subprocess.Popen[bytes], outputs: tuple[Output, Output], deadline: float, control: Control
) -> bool:
    """Read until the output is closed; whether the time ran out first, and the guard was told to end the command."""
    timed_out = False
    with selectors.DefaultSelector() as selector:
        for stream, output in zip((process.stdout, process.stderr), outputs, strict=True):
            selector.register(stream, selectors.EVENT_READ, output)  # type: ignore[arg-type]
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                if timed_out:
                    break
                timed_out, deadline = True, time.monotonic() + 2 * GRACE
                control.end()
                continue
            for key, _ in selector.select(min(left, LONGEST_LOOK)):
                data = os.read(key.fd, CHUNK)
                key.data.add(data)
                if not data:
                    selector.unregister(key.fileobj)
    # A command may close its output and go on.
    return timed_out or _outlives(process, deadline, control)


def _outlives(process: subprocess.Popen[bytes], deadline: float, control: Control) -> bool:
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        control.end()
        return True
    return False


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(2 * GRACE)
    except subprocess.TimeoutExpired:  # a guard that hangs: the system ends its command with it
        with suppress(ProcessLookupError):
            process.kill()
