"""What the crowd has done so far, counted by all its threads."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..door import Outcome
from ..journal import Entry
from ..machines.task import State


@dataclass
class Tally:
    moves: int = 0
    seconds_at_the_door: float = 0.0
    plans: int = 0
    retries: int = 0  # tasks that were begun once more
    tasks_done: int = 0
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
                self.tasks_done += sum(_is_a_done_task(entry) for entry in (result.entry, *result.caused))
            elif isinstance(result, list) and result:
                self.moves += 1
                self.retries += sum(task.attempt > 1 for task in result)

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
                "tasks_done": self.tasks_done,
                "retries": self.retries,
                "refusals": dict(self.refusals),
                "happened": dict(self.happened),
            }


def _is_a_done_task(entry: Entry) -> bool:
    return entry.entity_type == "task" and entry.to_state == State.COMPLETED
