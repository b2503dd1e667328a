"""Starts the process that forks victims, on the database under test."""

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

from tests.support import forked

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


@dataclass
class Victim:
    """A process that runs one scenario and reports in lines."""

    nursery: Nursery
    pid: int

    def read_line(self) -> str:
        return self.nursery.line()

    def wait_for(self, *words: str) -> str:
        while (line := self.read_line()) not in words:
            assert line == "statement", f"unexpected: {line}"
        return line

    def kill(self) -> list[str]:
        """Kills the process and returns the lines it has still written."""
        os.kill(self.pid, signal.SIGKILL)
        return self.remaining_lines("gone -9")

    def remaining_lines(self, ending: str = "gone 0") -> list[str]:
        words = []
        while (line := self.read_line()) != ending:
            assert not line.startswith("gone"), line
            words.append(line)
        return words


class Nursery:
    def __init__(self, url: str) -> None:
        self.process = forked.Popen(
            [sys.executable, "-m", "tests.crash.nursery"], cwd=ROOT, env={**os.environ, "DATABASE_URL": url},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        self.received = b""

    def victim(self, deed: str, *, moment: str = "", statement: int | None = None, times: int = 1) -> Victim:
        scenario: dict[str, Any] = {"deed": deed, "moment": moment, "statement": statement, "times": times}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(scenario).encode() + b"\n")
        # The victim's output may arrive before the nursery's line with its pid.
        before: list[str] = []
        while not (line := self.line()).startswith("pid "):
            before.append(line)
        self.received = "".join(f"{line}\n" for line in before).encode() + self.received
        return Victim(self, int(line.removeprefix("pid ")))

    def line(self) -> str:
        assert self.process.stdout is not None
        while b"\n" not in self.received:
            assert select.select([self.process.stdout], [], [], PATIENCE)[0], "the nursery is silent"
            more = os.read(self.process.stdout.fileno(), 65_536)
            assert more, "the nursery is gone"
            self.received += more
        line, _, self.received = self.received.partition(b"\n")
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
    from tests.crash import deeds  # Django is not set up when this conftest loads

    deeds.stage()
    return the_nursery
