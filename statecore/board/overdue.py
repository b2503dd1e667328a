"""How much is stuck, by machine. One bounded look per state is too much for every question, so it is kept a moment."""

from __future__ import annotations

import threading
import time
from datetime import datetime
from typing import NamedTuple

from ..stuck.gauge import overdue_counts
from .asking import Asking, asking

KEPT_SECONDS = 5.0


class Stuck(NamedTuple):
    overdue: dict[str, int]
    asking: Asking


class Kept:
    """One answer for everybody in the process; while one asks, the others wait for that answer."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.answer = Stuck({}, Asking({}, {}))
        self.until = 0.0

    def get(self, at: datetime) -> Stuck:
        with self.lock:
            if time.monotonic() >= self.until:
                self.answer = Stuck(_overdue(at), asking(at))
                self.until = time.monotonic() + KEPT_SECONDS
            return self.answer

    def forget(self) -> None:
        self.until = 0.0


def _overdue(at: datetime) -> dict[str, int]:
    machines: dict[str, int] = {}
    for entity_type, _state, count in overdue_counts(at):
        if count:
            machines[entity_type] = machines.get(entity_type, 0) + count
    return machines


kept = Kept()
stuck = kept.get
