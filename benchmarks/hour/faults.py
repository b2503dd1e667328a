"""One part after the other is killed, in an order that chance has chosen, and everything that ends comes back."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from benchmarks.hour.installation import Installation

TICK = 0.2
DATABASE = "postgresql"


class Faults:
    def __init__(self, installation: Installation, every: float) -> None:
        self.installation, self.every = installation, every
        self.happened: Counter[str] = Counter()
        self.chance = random.Random(1)  # noqa: S311
        self.waiting: list[str] = []
        self.all_struck = threading.Event()
        self.enough = threading.Event()
        self.failed: list[Exception] = []

    @contextmanager
    def happening(self) -> Iterator[None]:
        """Until there were enough; what ends by itself comes back as long as the block runs."""
        over = threading.Event()
        thread = threading.Thread(target=self._go_on, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(60)
            if self.failed:
                raise self.failed[0]

    def await_all_struck(self, seconds: float) -> None:
        """However long it takes for each to come back, no part is spared."""
        if not self.all_struck.wait(seconds):
            raise self.failed[0] if self.failed else TimeoutError(f"not all were struck in {seconds} seconds")

    def _go_on(self, over: threading.Event) -> None:
        due = monotonic() + self.every
        while not over.wait(TICK):
            try:
                self.installation.keep_up()
                if monotonic() >= due and not self.enough.is_set():
                    due += self.every
                    self._strike(self._next())
            except Exception as error:  # noqa: BLE001 - raised again by whoever has started it
                self.failed.append(error)
                return

    def _next(self) -> str:
        """Every part once before any comes again."""
        if not self.waiting:
            self.waiting = [DATABASE, *self.installation.parts()]
            self.chance.shuffle(self.waiting)
        return self.waiting.pop()

    def _strike(self, name: str) -> None:
        if name == DATABASE:
            self.installation.strike_database()
        else:
            self.installation.strike(name)
        self.happened[name.partition("@")[0].removesuffix(".service")] += 1
        if not self.waiting:
            self.all_struck.set()
