"""An installation and the terminals in which the commands of a page are typed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.documentation.blocks import ANYTHING, Typed, pattern
from tests.support.site import ROOT
from tests.support.waiting import until

SECONDS = 120.0
LOCK = "requirements.lock"
END = "@@ended"
# Background processes of a script ignore SIGINT, and so do their children; a terminal's do not.
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
        """Runs a command. Returns its combined output and exit code."""
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
        """Sends Ctrl-C to the running command and ends the shell."""
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


@dataclass(frozen=True)
class Installation:
    """The folder in which commands are typed, and the virtual environment, which gates in the sandbox read."""

    folder: Path
    programs: Path
    environment: Path


def check_out(folder: Path) -> Installation:
    """Creates a checkout of symbolic links with a virtual environment that is already installed."""
    environment = folder / ".venv"
    environment.mkdir(parents=True)
    for path in (*ROOT.iterdir(), *(ROOT / ".venv").iterdir()):
        link = (environment if path.parent.name == ".venv" else folder) / path.name
        if not link.exists():
            link.symlink_to(path)
    stamp = environment / f"installed-{LOCK}"
    stamp.unlink(missing_ok=True)
    stamp.write_bytes((ROOT / LOCK).read_bytes())
    # The virtual environment consists of links into this one.
    return Installation(folder, environment / "bin", ROOT / ".venv")


class Workspace:
    """An installation with several terminals. `replacements` maps example values on a page to their values here."""

    def __init__(
        self, tmp_path: Path, installation: Installation, replacements: dict[str, str], **environ: str
    ) -> None:
        self.tmp_path, self.replacements = tmp_path, replacements
        self.folder, self.python = installation.folder, installation.environment / "bin" / "python"
        self.home = tmp_path / "state"
        self.terminals: dict[str, Terminal] = {}
        (tmp_path / "user").mkdir()
        inherited = {"PATH": f"{installation.programs}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        own = {"HOME": str(tmp_path / "user"), "STATECORE_HOME": str(self.home), "STATECORE_SQLITE_SYNCHRONOUS": "OFF"}
        own["STATECORE_SANDBOX_READ"] = str(installation.environment)
        self.environ = {**inherited, **own, **environ}

    def terminal(self, name: str = "") -> Terminal:
        if name not in self.terminals:
            log = self.tmp_path / f"terminal-{len(self.terminals)}.log"
            self.terminals[name] = Terminal(self.folder, log, self.environ)
        return self.terminals[name]

    def localize(self, text: str) -> str:
        for example, value in self.replacements.items():
            text = text.replace(example, value)
        return text

    def run(self, command: str) -> str:
        """Runs a command that must succeed. Returns its output."""
        output, code = self.terminal().run(self.localize(command), SECONDS)
        assert code == 0, f"$ {command}\n{output}(exit code {code})"
        return output if output.endswith("\n") or not output else f"{output}\n"

    def check(self, typed: Typed) -> None:
        output = self.run(typed.command)
        wanted = pattern([self.localize(line) for line in typed.shown])
        assert wanted.fullmatch(output), f"$ {typed.command}\n{output}"

    def start(self, name: str, typed: Typed) -> None:
        """Starts a long-running command and waits for the shown output, allowing other lines in between."""
        terminal = self.terminal(name)
        terminal.type(self.localize(typed.command))
        wanted = pattern([word for line in typed.shown for word in (ANYTHING, self.localize(line))])
        until(lambda: wanted.search(terminal.unread()) is not None, SECONDS)

    def close(self) -> None:
        with ExitStack() as stack:
            for terminal in self.terminals.values():
                stack.callback(terminal.interrupt)
