"""The latest events in memory, ordered by position, each serialised once for all clients."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

MAX_EVENTS = 10_000
MAX_BYTES = 32 * 1024 * 1024
TRIMMED_AT = 1.1  # times these limits: each trim reads all remaining events
_position = attrgetter("position")


class PositionTooOld(Exception):
    """The events after this position have been archived or, where only the memory is read, are no longer in memory."""


class EpochEnded(PositionTooOld):
    """The position is after the last one that its epoch shares with the current epoch, which is `kept`."""

    def __init__(self, kept: int) -> None:
        super().__init__(kept)
        self.kept = kept


class OtherEpoch(PositionTooOld):
    """The database has begun another epoch, which the hub has not noticed yet."""


class StreamEvent(NamedTuple):
    """A serialised event, with the fields that clients can filter by."""

    position: int
    entity_type: str
    entity: str
    run: str
    actor: str
    kind: str
    severity: str
    from_state: str
    to_state: str
    event_name: str
    text: bytes

    @classmethod
    def serialize(cls, position: int, event: Mapping[str, Any]) -> StreamEvent:
        return cls(
            position, event["entity_type"], event["entity_id"], event["context"].get("run_id", ""), event["actor"],
            event["kind"], event["severity"], event["from_state"] or "", event["to_state"], event["event_name"],
            # Not orjson, whose results keep the buffer they were written to: 8 to 16 kB for an event of 1.2 kB.
            msgspec.json.encode({"position": position, "event": event}),
        )  # fmt: skip


class Ring:
    """All events after position `start` up to position `last` of an epoch. Readers keep their own positions."""

    def __init__(self, position: int, epoch: int = 1) -> None:
        self.epoch = epoch
        self.start = self.last = position
        self.events: list[StreamEvent] = []
        self.size = 0

    def add(self, events: Iterable[StreamEvent], last: int) -> bool:
        """Adds the events it does not have yet; returns whether `last` was new."""
        new = [event for event in events if event.position > self.last]
        is_new = last > self.last
        self.events += new
        self.size += sum(len(event.text) for event in new)
        self.last = max(self.last, last)
        self._trim()
        return is_new

    def add_older(self, events: list[StreamEvent], start: int) -> None:
        """Adds the events between position `start` and the current start."""
        self.events[:0] = events
        self.size += sum(len(event.text) for event in events)
        self.start = start

    def read_after(self, position: int, limit: int) -> list[StreamEvent]:
        """Returns at most `limit` events; raises PositionTooOld if the first ones are no longer in memory."""
        if position < self.start:
            raise PositionTooOld
        first = bisect_right(self.events, position, key=_position)
        return self.events[first : first + limit]

    def _trim(self) -> None:
        if len(self.events) <= TRIMMED_AT * MAX_EVENTS and self.size <= TRIMMED_AT * MAX_BYTES:
            return
        kept, size = 0, 0
        for event in reversed(self.events):
            if kept == MAX_EVENTS or size + len(event.text) > MAX_BYTES:
                break
            kept, size = kept + 1, size + len(event.text)
        removed = len(self.events) - kept
        self.start = self.events[removed - 1].position
        del self.events[:removed]
        self.size = size
