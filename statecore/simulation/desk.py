"""Where the crowd asks the doors: at the common pace, counted, and told no without falling over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

import structlog

from .. import door
from ..kernel.actors import Actor
from ..kernel.entity import Entity
from ..kernel.refusals import Refusal
from .names import Names
from .pace import Pace
from .tally import Tally

T = TypeVar("T")
log = structlog.get_logger(__name__)


class Desk:
    def __init__(self, names: Names, rate: float, failures: float) -> None:
        self.names, self.failures = names, failures
        self.stop = threading.Event()
        self.pace = Pace(rate, self.stop)
        self.tally = Tally()
        self._dead: list[tuple[float, str]] = []  # workers that were killed, and when they will be missed
        self.runs: set[str] = set()  # of this simulation, not ended yet as far as is known
        self._in_hand: set[str] = set()
        self._lock = threading.Lock()

    @property
    def closed(self) -> bool:
        return self.stop.is_set()

    def ask(self, call: Callable[..., T], *args: Any, **given: Any) -> T | None:
        """One move at the pace; None when it was refused."""
        self.pace.wait()
        began = monotonic()
        try:
            result = call(*args, **given)
        except Refusal as refusal:
            self.pace.give_back()

            self.tally.refused(refusal.code, monotonic() - began)
            log.debug("refused", code=refusal.code, detail=refusal.detail)
            return None
        if result == []:
            self.pace.give_back()
        self.tally.note(result, monotonic() - began)
        return result

    def create(self, model: type[Entity], entity_id: str, actor: Actor, **fields: Any) -> Any:
        return self.ask(door.create, model, id=entity_id, actor=actor, **fields)

    def move(self, model: type[Entity], entity_id: str, trigger: str, actor: Actor, **params: Any) -> Any:
        return self.ask(door.transition, model, entity_id, trigger, actor=actor, params=params)

    def vanishes(self, worker: str, missed_after: float) -> None:
        with self._lock:
            self._dead.append((monotonic() + missed_after, worker))

    def found_dead(self) -> list[str]:
        """Those who are missed by now; all of them once the end has come."""
        with self._lock:
            found = [worker for missed_at, worker in self._dead if self.closed or missed_at <= monotonic()]
            self._dead = [each for each in self._dead if each[1] not in found]
        return found

    @contextmanager
    def in_hand(self, key: str) -> Iterator[bool]:
        """Whether nobody else of the crowd is at it: two who find the same gate need not race for it."""
        with self._lock:
            free = key not in self._in_hand
            if free:
                self._in_hand.add(key)
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    self._in_hand.discard(key)
