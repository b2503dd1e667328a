"""The nursery on the database under test, and a stage for its victims."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


@dataclass
class Victim:
    """A process that plays one scenario; what it says is read line by line."""

    nursery: Nursery
    pid: int

    def says(self) -> str:
        return self.nursery.line()

    def until(self, *words: str) -> str:
        while (said := self.says()) not in words:
            assert said == "statement", f"unexpected: {said}"
        return said

    def kill(self) -> list[str]:
        """kill -9, and what it still said before it died."""
        os.kill(self.pid, signal.SIGKILL)
        return self.last_words("gone -9")

    def last_words(self, ending: str = "gone 0") -> list[str]:
        words = []
        while (said := self.says()) != ending:
            assert not said.startswith("gone"), said
            words.append(said)
        return words


class Nursery:
    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery"], cwd=ROOT, env={**os.environ, "DATABASE_URL": url},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        self.heard = b""

    def victim(self, deed: str, *, moment: str = "", statement: int | None = None, times: int = 1) -> Victim:
        scenario: dict[str, Any] = {"deed": deed, "moment": moment, "statement": statement, "times": times}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(scenario).encode() + b"\n")
        # The victim may speak before the nursery has told its number.
        before: list[str] = []
        while not (said := self.line()).startswith("pid "):
            before.append(said)
        self.heard = "".join(f"{line}\n" for line in before).encode() + self.heard
        return Victim(self, int(said.removeprefix("pid ")))

    def line(self) -> str:
        assert self.process.stdout is not None
        while b"\n" not in self.heard:
            assert select.select([self.process.stdout], [], [], PATIENCE)[0], "the nursery is silent"
            more = os.read(self.process.stdout.fileno(), 65_536)
            assert more, "the nursery is gone"
            self.heard += more
        line, _, self.heard = self.heard.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                self.process.wait(PATIENCE)
            finally:
                self.process.kill()


def url_of_the_test_database() -> str:
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return os.environ["DATABASE_URL"].replace("/postgres?", f"/{name}?")


@pytest.fixture(scope="session")
def the_nursery(django_db_setup: None) -> Iterator[Nursery]:
    opened = Nursery(url_of_the_test_database())
    yield opened
    opened.close()


@pytest.fixture
def nursery(the_nursery: Nursery, transactional_db: None) -> Nursery:
    from tests.crash import deeds  # needs Django, which is not ready when this file is read

    deeds.stage()
    return the_nursery
