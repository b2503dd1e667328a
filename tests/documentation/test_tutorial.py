"""The tutorial is typed as it stands, against a real installation, and shows what the page shows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.documentation.console import Typed, blocks, pattern
from tests.documentation.terminal import Terminal
from tests.support.site import ROOT, free_port
from tests.support.waiting import until

PAGE = ROOT / "docs" / "tutorial" / "first-plan.md"
PORT_ON_THE_PAGE = ":8000"
SECONDS = 120.0


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The project as if cloned, with an environment in which everything is installed already."""
    folder, environment = tmp_path / "statecore", tmp_path / "statecore" / ".venv"
    environment.mkdir(parents=True)
    for place in (*ROOT.iterdir(), *(ROOT / ".venv").iterdir()):
        made = (environment if place.parent.name == ".venv" else folder) / place.name
        if not made.exists():
            made.symlink_to(place)
    lock = "requirements.lock"
    stamp = environment / f"installed-{lock}"
    stamp.unlink(missing_ok=True)
    stamp.write_bytes((ROOT / lock).read_bytes())
    return folder


class Desk:
    """Several terminals, at one of which the reader sits."""

    def __init__(self, checkout: Path, tmp_path: Path) -> None:
        self.checkout, self.tmp_path, self.port = checkout, tmp_path, f":{free_port()}"
        self.terminals: dict[str, Terminal] = {}
        kept = {"PATH": f"{checkout}/.venv/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        own = {"HOME": str(tmp_path / "me"), "STATECORE_HOME": str(tmp_path / "state"), "PORT": self.port[1:]}
        (tmp_path / "me").mkdir()
        self.environ = {**kept, **own, "STATECORE_SQLITE_SYNCHRONOUS": "OFF"}

    def terminal(self, name: str) -> Terminal:
        if name not in self.terminals:
            self.terminals[name] = Terminal(self.checkout, self.tmp_path / f"terminal-{name}.log", self.environ)
        return self.terminals[name]

    def here(self, text: str) -> str:
        return text.replace(PORT_ON_THE_PAGE, self.port)

    def do(self, typed: Typed) -> None:
        said, code = self.terminal("").run(self.here(typed.command), SECONDS)
        wanted = pattern([self.here(line) for line in typed.shown])
        said += "" if said.endswith("\n") or not said else "\n"
        assert wanted.fullmatch(said), f"$ {typed.command}\n{said}(exit code {code})"
        assert code == 0, typed.command

    def start(self, name: str, typed: Typed) -> None:
        """What does not end: it is waited for what the page shows of it."""
        terminal = self.terminal(name)
        terminal.type(self.here(typed.command))
        wanted = pattern([self.here(line) for line in typed.shown])
        until(lambda: wanted.search(terminal.unread()) is not None, SECONDS)

    def leave(self) -> None:
        with ExitStack() as leaving:
            for terminal in self.terminals.values():
                leaving.callback(terminal.interrupt)


@pytest.fixture
def desk(checkout: Path, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(checkout, tmp_path)
    yield desk
    desk.leave()


def test_every_command_of_the_tutorial_does_what_the_page_shows(desk: Desk) -> None:
    for block in blocks(PAGE):
        for typed in block.typed:
            if block.terminal:
                desk.start(block.terminal, typed)
            else:
                desk.do(typed)
