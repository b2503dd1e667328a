"""The common pace: so many moves a second, whoever makes them."""

from __future__ import annotations

import threading
from time import monotonic

SLACK = 1.0  # seconds that may be caught up; what is lost beyond them is lost


class Pace:
    def __init__(self, rate: float, stop: threading.Event) -> None:
        self.interval, self.stop = 1 / rate, stop
        self._lock = threading.Lock()
        self._next = monotonic()

    def wait(self) -> None:
        """Take the next slot and wait for it; nobody waits once the end has come."""
        with self._lock:
            at = max(self._next, monotonic() - SLACK)
            self._next = at + self.interval
        if (left := at - monotonic()) > 0:
            self.stop.wait(left)

    def give_back(self) -> None:
        """For a slot in which nothing moved."""
        with self._lock:
            self._next -= self.interval
