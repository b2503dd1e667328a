"""Broadcasts numbered events to one Channels group, one message at a time, for the live hubs of the web processes.

Messages may be lost, so nothing depends on them: a message names its first and last position, and a receiver that has
missed some, because Redis was down or there were too many events for a message, reads them from the journal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...journal import ENTITY_KINDS
from ...journal.position import current_epoch
from ..broadcast import Broadcaster
from .sink import Batch, Sink

GROUP = "journal"
MESSAGE = "journal.news"  # the type of the messages
MAX_EVENTS = 100  # in one message, to keep it small


class PositionRange(NamedTuple):
    """A range of positions of an epoch with its events, unless there are too many."""

    epoch: int
    first: int
    last: int
    events: Batch

    def extend(self, following: PositionRange) -> PositionRange:
        return PositionRange(
            self.epoch, self.first, following.last, [*self.events, *following.events][: MAX_EVENTS + 1]
        )

    def to_message(self) -> dict[str, Any]:
        fits = len(self.events) <= MAX_EVENTS
        events = [{"position": event.position, "event": event.serialized} for event in self.events] if fits else None
        return {"type": MESSAGE, "epoch": self.epoch, "first": self.first, "last": self.last, "events": events}


class Live(Sink):
    name = "live"

    def __init__(self) -> None:
        self.broadcaster: Broadcaster[PositionRange] | None = None
        self.epoch = 0

    def deliver(self, batch: Batch) -> None:
        if self.broadcaster is None:
            # The epoch does not change while this process leads.
            self.broadcaster, self.epoch = Broadcaster(GROUP), current_epoch()
        events = _select_streamed(batch)
        self.broadcaster.send(PositionRange(self.epoch, batch[0].position, batch[-1].position, events))

    def close(self) -> None:
        if self.broadcaster is not None:
            self.broadcaster.close()
            self.broadcaster = None


def _select_streamed(batch: Batch) -> Batch:
    """Streams show what machines do; accounts and epochs are read by their own calls."""
    return [event for event in batch if event.entry.kind in ENTITY_KINDS]
