"""Kills the processes of an installation in random order and restarts whatever has ended."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from benchmarks.soak.installation import Installation

TICK = 0.2
DATABASE = "postgresql"


class Faults:
    def __init__(self, installation: Installation, every: float) -> None:
        self.installation, self.every = installation, every
        self.kills: Counter[str] = Counter()
        self.random = random.Random(1)  # noqa: S311
        self.waiting: list[str] = []
        self.all_killed = threading.Event()
        self.stop = threading.Event()
        self.failed: list[Exception] = []

    @contextmanager
    def injecting(self) -> Iterator[None]:
        """Kills processes until `stop` is set; restarts ended ones until the block exits."""
        finished = threading.Event()
        thread = threading.Thread(target=self._loop, args=(finished,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            finished.set()
            thread.join(60)
            if self.failed:
                raise self.failed[0]

    def await_all_killed(self, seconds: float) -> None:
        """Waits until every process was killed at least once."""
        if not self.all_killed.wait(seconds):
            raise (
                self.failed[0]
                if self.failed
                else TimeoutError(f"not all processes were killed within {seconds} seconds")
            )

    def _loop(self, finished: threading.Event) -> None:
        due = monotonic() + self.every
        while not finished.wait(TICK):
            try:
                self.installation.restart_ended()
                if monotonic() >= due and not self.stop.is_set():
                    due += self.every
                    self._kill(self._next())
            except Exception as error:  # noqa: BLE001 - raised again in injecting()
                self.failed.append(error)
                return

    def _next(self) -> str:
        """Returns each process once before any repeats."""
        if not self.waiting:
            self.waiting = [DATABASE, *self.installation.parts()]
            self.random.shuffle(self.waiting)
        return self.waiting.pop()

    def _kill(self, name: str) -> None:
        if name == DATABASE:
            self.installation.crash_database()
        else:
            self.installation.crash(name)
        self.kills[name.partition("@")[0].removesuffix(".service")] += 1
        if not self.waiting:
            self.all_killed.set()
