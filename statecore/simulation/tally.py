"""What the crowd has done so far, counted by all its threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..door import Outcome
from ..journal import Entry


@dataclass
class Tally:
    moves: int = 0
    seconds_at_the_door: float = 0.0
    plans: int = 0
    retries: int = 0  # tasks that were begun once more
    reached: Counter[tuple[str, str]] = field(default_factory=Counter)  # by machine and state
    runs: Counter[str] = field(default_factory=Counter)  # that have ended, by state
    refusals: Counter[str] = field(default_factory=Counter)  # by code
    happened: Counter[str] = field(default_factory=Counter)  # what the agents went through
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def note(self, result: Any, seconds: float) -> None:
        """What a door has answered: an outcome, or the tasks that were claimed."""
        with self._lock:
            self.seconds_at_the_door += seconds
            if isinstance(result, Outcome) and result.entry:
                self.moves += 1
                self._reached([result.entry, *result.caused])
            elif isinstance(result, list) and result:
                self.moves += 1
                self.reached["task", "running"] += len(result)
                self.retries += sum(task.attempt > 1 for task in result)

    def _reached(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.reached[entry.entity_type, entry.to_state] += 1

    def refused(self, code: str, seconds: float) -> None:
        with self._lock:
            self.seconds_at_the_door += seconds
            self.refusals[code] += 1

    def happens(self, what: str, number: int = 1) -> None:
        with self._lock:
            self.happened[what] += number

    def ended(self, state: str) -> None:
        with self._lock:
            self.runs[state] += 1

    def planned(self) -> None:
        with self._lock:
            self.plans += 1

    def as_dict(self) -> dict[str, Any]:
        with self._lock:
            return {
                "moves": self.moves,
                "plans": self.plans,
                "runs": dict(self.runs),
                "tasks_done": self.reached["task", "completed"],
                "retries": self.retries,
                "refusals": dict(self.refusals),
                "happened": dict(self.happened),
                "reached": {f"{machine}.{state}": number for (machine, state), number in sorted(self.reached.items())},
            }
