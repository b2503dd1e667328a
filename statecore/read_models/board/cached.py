"""Numbers that are read at most every few seconds for all viewers of a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Generic, TypeVar

T = TypeVar("T")

CACHE_SECONDS = 5.0


class Cached(Generic[T]):
    """One result for all callers in the process; while one caller reads, the others wait for its result.

    `factor` multiplies the time for which it is kept.
    """

    def __init__(self, read: Callable[[datetime], T], factor: int = 1) -> None:
        self.read, self.factor, self.lock = read, factor, threading.Lock()
        self.found: T | None = None
        self.until = 0.0

    def get(self, at: datetime) -> T:
        with self.lock:
            if self.found is None or time.monotonic() >= self.until:
                self.found = self.read(at)
                self.until = time.monotonic() + self.factor * CACHE_SECONDS
            return self.found

    def clear(self) -> None:
        self.until = 0.0
