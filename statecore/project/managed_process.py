"""One process under the supervisor: started, watched, restarted after a crash, stopped."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launcher.py")
# After running this long, earlier crashes no longer count.
STABLE_AFTER = 60.0
MAX_CRASHES = 5


@dataclass
class ManagedProcess:
    name: str
    command: list[str]
    crashes: int = 0
    started_at: float = 0.0
    restart_at: float = 0.0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        self.started_at = time.monotonic()
        launcher = [sys.executable, "-I", str(LAUNCHER), str(os.getpid())]
        # In a new session, so that Ctrl-C in the terminal reaches only the supervisor.
        self.process = subprocess.Popen([*launcher, *self.command], start_new_session=True)

    def check(self) -> str | None:
        """Restarts the process if it is due, and returns a message if it has ended."""
        if self.process is None:
            if time.monotonic() >= self.restart_at:
                self.start()
            return None
        code = self.process.poll()
        return None if code is None else self._handle_crash(code)

    def _handle_crash(self, code: int) -> str:
        self.kill()
        self.process = None
        if time.monotonic() - self.started_at >= STABLE_AFTER:
            self.crashes = 0
        self.crashes += 1
        if self.has_given_up:
            return f"{self.name} {_describe_exit(code)}, {self.crashes} times in a row: giving up."
        pause = 2 ** (self.crashes - 1)
        self.restart_at = time.monotonic() + pause
        return f"{self.name} {_describe_exit(code)}; restarting in {pause} s."

    @property
    def has_given_up(self) -> bool:
        return self.crashes >= MAX_CRASHES

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
