"""A terminal: a shell that keeps its folder and its variables from one command to the next."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

from tests.support.waiting import until

END = "@@ended"
# In the background of a script Ctrl-C is ignored, by whatever is started there as well; not at a terminal.
SHELL = ("env", "--default-signal=INT", "/bin/bash", "--noprofile", "--norc")


class Terminal:
    def __init__(self, folder: Path, log: Path, environ: dict[str, str]) -> None:
        self.log, self.read = log, 0
        with log.open("wb") as out:
            self.shell = subprocess.Popen(
                SHELL, cwd=folder, env=environ, stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True
            )

    def type(self, command: str) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write(f"{command}\n".encode())
        self.shell.stdin.flush()

    def run(self, command: str, seconds: float) -> tuple[str, int]:
        """What a command says on both outputs, and its exit code."""
        self.type(f"{command}\nprintf '{END} %s\\n' $?")
        ended = re.compile(rf"^(.*?){END} (\d+)\n", re.S)
        until(lambda: ended.search(self.unread()) is not None or self.shell.poll() is not None, seconds)
        found = ended.search(self.unread())
        assert found is not None, f"{command}\n{self.unread()}"
        self.read += len(found[0].encode())
        return found[1], int(found[2])

    def unread(self) -> str:
        return self.log.read_bytes()[self.read :].decode()

    def interrupt(self, seconds: float = 30.0) -> None:
        """Ctrl-C for what runs, and the end of the shell."""
        assert self.shell.stdin is not None
        self.shell.stdin.close()
        if self.shell.poll() is None:
            os.killpg(self.shell.pid, signal.SIGINT)
            try:
                self.shell.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(self.shell.pid, signal.SIGKILL)
                self.shell.wait(seconds)
                raise
