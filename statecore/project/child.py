"""One supervised process: started, watched, started again after a crash, stopped."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launcher.py")
# A process that has run this long is sound: an earlier crash no longer counts against it.
SOUND_AFTER = 60.0
MOST_CRASHES = 5


@dataclass
class Child:
    name: str
    command: list[str]
    crashes: int = 0
    started_at: float = 0.0
    start_again_at: float = 0.0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        self.started_at = time.monotonic()
        launcher = [sys.executable, "-I", str(LAUNCHER), str(os.getpid())]
        # A session of its own: Ctrl-C in the terminal reaches the supervisor alone.
        self.process = subprocess.Popen([*launcher, *self.command], start_new_session=True)

    def tend(self) -> str | None:
        """Look once; answer what there is to say about it, if anything."""
        if self.process is None:
            if time.monotonic() >= self.start_again_at:
                self.start()
            return None
        code = self.process.poll()
        return None if code is None else self._crashed(code)

    def _crashed(self, code: int) -> str:
        self.kill()
        self.process = None
        if time.monotonic() - self.started_at >= SOUND_AFTER:
            self.crashes = 0
        self.crashes += 1
        if self.has_given_up:
            return f"{self.name} {_ending(code)}, {self.crashes} times in a row: giving up."
        pause = 2 ** (self.crashes - 1)
        self.start_again_at = time.monotonic() + pause
        return f"{self.name} {_ending(code)}; it starts again in {pause} s."

    @property
    def has_given_up(self) -> bool:
        return self.crashes >= MOST_CRASHES

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def terminate(self) -> None:
        """Ask the leader only: Celery's is to let its pool finish, not to see it terminated."""
        if self.process is not None and self.is_running:
            self.process.terminate()

    def kill(self) -> None:
        """End whatever is left of the whole group."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _ending(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
