"""One process under the supervisor: started, watched, restarted when it ends or hangs, stopped."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from statecore.operations import pulse

LAUNCHER = Path(__file__).with_name("launcher.py")
# After running this long, earlier crashes no longer count.
STABLE_AFTER = 60.0
# The pauses before a restart double up to this. A part that cannot run must not stop the others.
MAX_PAUSE = 60
# The exit codes of a process that was to end.
PLANNED = (0, -signal.SIGTERM)


class Ended(NamedTuple):
    name: str
    pid: int
    why: str
    pause: int
    # False if it was to end, as one that uses too much memory.
    has_crashed: bool

    def __str__(self) -> str:
        return f"{self.name} {self.why}; restarting in {self.pause} s."


@dataclass
class ManagedProcess:
    name: str
    command: list[str]
    crashes: int = 0
    started_at: float = 0.0
    restart_at: float = 0.0
    # None until its first pulse: it may still load its modules, or send none.
    pulse_at: float | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        self.started_at, self.pulse_at = time.monotonic(), None
        launcher = [sys.executable, "-I", str(LAUNCHER), str(os.getpid())]
        # In a new session, so that Ctrl-C in the terminal reaches only the supervisor.
        self.process = subprocess.Popen([*launcher, *self.command], start_new_session=True)

    def check(self) -> Ended | None:
        """Restarts the process if it is due, and returns how it has ended, if it has."""
        if self.process is None:
            if time.monotonic() >= self.restart_at:
                self.start()
            return None
        if self.has_hung():
            return self._end(f"has hung for {pulse.MISSED_AFTER:.0f} s", has_crashed=True)
        code = self.process.poll()
        return None if code is None else self._end(_describe_exit(code), has_crashed=code not in PLANNED)

    def has_hung(self) -> bool:
        return self.pulse_at is not None and time.monotonic() - self.pulse_at > pulse.MISSED_AFTER

    def _end(self, why: str, *, has_crashed: bool) -> Ended:
        """Kills what is left of it, and plans its next start."""
        assert self.process is not None  # noqa: S101 - the caller has checked it
        self.kill()
        ended_pid, self.process = self.process.pid, None
        if time.monotonic() - self.started_at >= STABLE_AFTER:
            self.crashes = 0
        pause = min(2**self.crashes, MAX_PAUSE)
        self.crashes += 1
        self.restart_at = time.monotonic() + pause
        return Ended(self.name, ended_pid, why, pause, has_crashed)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def terminate(self) -> None:
        """Signals only the leader of the group: Celery's main process lets its pool finish."""
        if self.process is not None and self.is_running:
            self.process.terminate()

    def kill(self) -> None:
        """Kills what is left of the process group."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _describe_exit(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
