"""What all simulated actors share: rate limit, statistics and calls to the transition service."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

import structlog

from ... import transitions
from ...kernel.actors import Actor
from ...kernel.entity import Entity
from ...kernel.refusals import Refusal
from ...transitions import Outcome
from .names import Names

T = TypeVar("T")
log = structlog.get_logger(__name__)

SLACK = 1.0  # at most this many seconds are caught up


class RateLimiter:
    """Limits the transitions per second of all threads together."""

    def __init__(self, rate: float, stop: threading.Event) -> None:
        self.interval, self.stop = 1 / rate, stop
        self._lock = threading.Lock()
        self._next = monotonic()

    def wait(self) -> None:
        """Takes the next slot and waits for it, unless the simulation is stopped."""
        with self._lock:
            at = max(self._next, monotonic() - SLACK)
            self._next = at + self.interval
        if (left := at - monotonic()) > 0:
            self.stop.wait(left)

    def release(self) -> None:
        """Returns a slot in which no transition happened."""
        with self._lock:
            self._next -= self.interval


@dataclass
class Statistics:
    """Counts what all threads did."""

    transitions: int = 0
    call_seconds: float = 0.0
    plans: int = 0
    retries: int = 0  # claims of a task after its first attempt
    runs: Counter[str] = field(default_factory=Counter)  # ended runs by state
    refusals: Counter[str] = field(default_factory=Counter)  # by code
    incidents: Counter[str] = field(default_factory=Counter)  # by kind
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def record_result(self, result: Any, seconds: float) -> None:
        """Records the outcome of a transition or the tasks of a claim."""
        with self._lock:
            self.call_seconds += seconds
            if isinstance(result, Outcome) and result.entry:
                self.transitions += 1
            elif isinstance(result, list) and result:
                self.transitions += 1
                self.retries += sum(task.attempt > 1 for task in result)

    def record_refusal(self, code: str, seconds: float) -> None:
        with self._lock:
            self.call_seconds += seconds
            self.refusals[code] += 1

    def count_incident(self, kind: str, number: int = 1) -> None:
        with self._lock:
            self.incidents[kind] += number

    def record_ended_run(self, state: str) -> None:
        with self._lock:
            self.runs[state] += 1

    def record_plan(self) -> None:
        with self._lock:
            self.plans += 1

    def as_dict(self) -> dict[str, Any]:
        with self._lock:
            return {
                "transitions": self.transitions,
                "plans": self.plans,
                "runs": dict(self.runs),
                "retries": self.retries,
                "refusals": dict(self.refusals),
                "incidents": dict(self.incidents),
            }


class Context:
    def __init__(self, names: Names, rate: float, failures: float) -> None:
        self.names, self.failures = names, failures
        self.stop = threading.Event()
        self.limiter = RateLimiter(rate, self.stop)
        self.statistics = Statistics()
        self._killed: list[tuple[float, str]] = []  # when each killed worker will be missed
        self.runs: set[str] = set()  # runs of this simulation that have not ended
        self._reserved: set[str] = set()
        self._lock = threading.Lock()

    @property
    def is_stopped(self) -> bool:
        return self.stop.is_set()

    def call(self, function: Callable[..., T], *args: Any, **given: Any) -> T | None:
        """Calls a service function within the rate limit. Returns None if it was refused."""
        self.limiter.wait()
        began = monotonic()
        try:
            result = function(*args, **given)
        except Refusal as refusal:
            self.limiter.release()
            self.statistics.record_refusal(refusal.code, monotonic() - began)
            log.debug("refused", code=refusal.code, detail=refusal.detail)
            return None
        if result == []:
            self.limiter.release()
        self.statistics.record_result(result, monotonic() - began)
        return result

    def create(self, model: type[Entity], entity_id: str, actor: Actor, **fields: Any) -> Any:
        return self.call(transitions.create, model, id=entity_id, actor=actor, **fields)

    def fire(self, model: type[Entity], entity_id: str, trigger: str, actor: Actor, **params: Any) -> Any:
        return self.call(transitions.transition, model, entity_id, trigger, actor=actor, params=params)

    def add_killed_worker(self, worker: str, missed_after: float) -> None:
        with self._lock:
            self._killed.append((monotonic() + missed_after, worker))

    def pop_missed_workers(self) -> list[str]:
        """Returns killed workers that are due to be missed, or all of them once the simulation has stopped."""
        with self._lock:
            found = [worker for missed_at, worker in self._killed if self.is_stopped or missed_at <= monotonic()]
            self._killed = [each for each in self._killed if each[1] not in found]
        return found

    @contextmanager
    def exclusively(self, key: str) -> Iterator[bool]:
        """Yields whether the key was free and reserves it, so that two threads do not race for one entity."""
        with self._lock:
            free = key not in self._reserved
            if free:
                self._reserved.add(key)
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    self._reserved.discard(key)
