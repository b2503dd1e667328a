"""How much is stuck, by machine. One bounded look per state is too much for every question, so it is kept a moment."""

from __future__ import annotations

import threading
import time
from datetime import datetime

from ..stuck.gauge import overdue_counts

KEPT_SECONDS = 5.0


class Kept:
    """One answer for everybody in the process; while one asks, the others wait for that answer."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.answer: dict[str, int] = {}
        self.until = 0.0

    def get(self, at: datetime) -> dict[str, int]:
        with self.lock:
            if time.monotonic() >= self.until:
                self.answer = _look(at)
                self.until = time.monotonic() + KEPT_SECONDS
            return self.answer

    def forget(self) -> None:
        self.until = 0.0


def _look(at: datetime) -> dict[str, int]:
    machines: dict[str, int] = {}
    for entity_type, _state, count in overdue_counts(at):
        if count:
            machines[entity_type] = machines.get(entity_type, 0) + count
    return machines


kept = Kept()
overdue = kept.get
