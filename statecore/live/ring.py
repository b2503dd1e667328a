"""The latest events, in the order of their positions, each written out once for everybody who is told of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

MOST_EVENTS = 10_000
MOST_BYTES = 32 * 1024 * 1024


class TooOld(Exception):
    """What follows this position is no longer at hand: the state has to be read anew."""


class Told(NamedTuple):
    """An event as it is told, and what it may be chosen by."""

    position: int
    entity_type: str
    entity: str
    run: str
    actor: str
    kind: str
    severity: str
    to_state: str
    text: bytes

    @classmethod
    def of(cls, position: int, event: Mapping[str, Any]) -> Told:
        return cls(
            position, event["entity_type"], event["entity_id"], event["context"].get("run_id", ""), event["actor"],
            event["kind"], event["severity"], event["to_state"], orjson.dumps({"position": position, "event": event}),
        )  # fmt: skip


class Ring:
    """Everything after `start` and up to `last` is here. A reader keeps a position of its own, and nothing else."""

    def __init__(self, at: int) -> None:
        self.start = self.last = at
        self.events: list[Told] = []
        self.size = 0

    def add(self, events: Iterable[Told], last: int) -> bool:
        """What is known already is left out; whether anything was new."""
        new = [event for event in events if event.position > self.last]
        is_new = last > self.last
        self.events += new
        self.size += sum(len(event.text) for event in new)
        self.last = max(self.last, last)
        self._shorten()
        return is_new

    def add_older(self, events: list[Told], start: int) -> None:
        self.events[:0] = events
        self.size += sum(len(event.text) for event in events)
        self.start = start

    def after(self, position: int, limit: int) -> list[Told]:
        if position < self.start:
            raise TooOld
        first = bisect_right(self.events, position, key=_position)
        return self.events[first : first + limit]

    def _shorten(self) -> None:
        """In large steps: each moves all that stay."""
        if len(self.events) <= 2 * MOST_EVENTS and self.size <= 2 * MOST_BYTES:
            return
        kept, size = 0, 0
        for event in reversed(self.events):
            if kept == MOST_EVENTS or size + len(event.text) > MOST_BYTES:
                break
            kept, size = kept + 1, size + len(event.text)
        gone = len(self.events) - kept
        self.start = self.events[gone - 1].position
        del self.events[:gone]
        self.size = size


def _position(event: Told) -> int:
    return event.position
