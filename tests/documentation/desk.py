"""Where a reader sits: a checkout of the project, and terminals in which the commands of a page are typed."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from tests.documentation.blocks import ANYTHING, Typed, pattern
from tests.documentation.terminal import Terminal
from tests.support.site import ROOT
from tests.support.waiting import until

SECONDS = 120.0
LOCK = "requirements.lock"


def check_out(folder: Path) -> Path:
    """The project as if cloned, with an environment in which everything is installed already."""
    environment = folder / ".venv"
    environment.mkdir(parents=True)
    for place in (*ROOT.iterdir(), *(ROOT / ".venv").iterdir()):
        made = (environment if place.parent.name == ".venv" else folder) / place.name
        if not made.exists():
            made.symlink_to(place)
    stamp = environment / f"installed-{LOCK}"
    stamp.unlink(missing_ok=True)
    stamp.write_bytes((ROOT / LOCK).read_bytes())
    return folder


class Desk:
    """Several terminals, at one of which the reader sits. What has an example's name on a page has its place here."""

    def __init__(self, tmp_path: Path, places: dict[str, str], **environ: str) -> None:
        self.tmp_path, self.places = tmp_path, places
        self.checkout, self.home = check_out(tmp_path / "statecore"), tmp_path / "state"
        self.terminals: dict[str, Terminal] = {}
        (tmp_path / "me").mkdir()
        kept = {"PATH": f"{self.checkout}/.venv/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        own = {"HOME": str(tmp_path / "me"), "STATECORE_HOME": str(self.home), "STATECORE_SQLITE_SYNCHRONOUS": "OFF"}
        self.environ = {**kept, **own, **environ}

    def terminal(self, name: str = "") -> Terminal:
        if name not in self.terminals:
            log = self.tmp_path / f"terminal-{len(self.terminals)}.log"
            self.terminals[name] = Terminal(self.checkout, log, self.environ)
        return self.terminals[name]

    def here(self, text: str) -> str:
        for on_the_page, here in self.places.items():
            text = text.replace(on_the_page, here)
        return text

    def run(self, command: str) -> str:
        """What it says; it has to succeed."""
        said, code = self.terminal().run(self.here(command), SECONDS)
        assert code == 0, f"$ {command}\n{said}(exit code {code})"
        return said if said.endswith("\n") or not said else f"{said}\n"

    def do(self, typed: Typed) -> None:
        said = self.run(typed.command)
        wanted = pattern([self.here(line) for line in typed.shown])
        assert wanted.fullmatch(said), f"$ {typed.command}\n{said}"

    def start(self, name: str, typed: Typed) -> None:
        """What does not end: it is waited for what the page shows of it, whatever its processes say in between."""
        terminal = self.terminal(name)
        terminal.type(self.here(typed.command))
        wanted = pattern([word for line in typed.shown for word in (ANYTHING, self.here(line))])
        until(lambda: wanted.search(terminal.unread()) is not None, SECONDS)

    def leave(self) -> None:
        with ExitStack() as leaving:
            for terminal in self.terminals.values():
                leaving.callback(terminal.interrupt)
