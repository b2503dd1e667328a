"""Broadcasts numbered events to one Channels group, one message at a time, for the live hubs of the web processes.

Messages may be lost, so nothing depends on them: a message names its first and last position, and a receiver that has
missed some, because Redis was down or there were too many events for a message, reads them from the journal.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, NamedTuple

import structlog
from channels.layers import get_channel_layer

from ...journal import ENTITY_KINDS
from ...journal.position import current_epoch
from .sink import Batch, Sink

log = structlog.get_logger(__name__)

GROUP = "journal"
MESSAGE = "journal.news"  # the type of the messages
MAX_EVENTS = 100  # in one message, to keep it small
SEND_TIMEOUT = 2.0


class PositionRange(NamedTuple):
    """A range of positions with its events, unless there are too many."""

    first: int
    last: int
    events: Batch

    def extend(self, following: PositionRange) -> PositionRange:
        return PositionRange(self.first, following.last, [*self.events, *following.events][: MAX_EVENTS + 1])

    def to_message(self, epoch: int) -> dict[str, Any]:
        fits = len(self.events) <= MAX_EVENTS
        events = [{"position": event.position, "event": event.serialized} for event in self.events] if fits else None
        return {"type": MESSAGE, "epoch": epoch, "first": self.first, "last": self.last, "events": events}


class Live(Sink):
    name = "live"

    def __init__(self) -> None:
        self.broadcaster: Broadcaster | None = None

    def deliver(self, batch: Batch) -> None:
        if self.broadcaster is None:
            # The epoch does not change while this process leads.
            self.broadcaster = Broadcaster(current_epoch())
        self.broadcaster.send(PositionRange(batch[0].position, batch[-1].position, _select_streamed(batch)))

    def close(self) -> None:
        if self.broadcaster is not None:
            self.broadcaster.close()
            self.broadcaster = None


def _select_streamed(batch: Batch) -> Batch:
    """Streams show what machines do; accounts and epochs are read by their own calls."""
    return [event for event in batch if event.entry.kind in ENTITY_KINDS]


class Broadcaster:
    """Sends from an event loop in a separate thread, so that the sequencer never waits for Redis."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.loop = asyncio.new_event_loop()
        self.pending: PositionRange | None = None
        self.is_sending = self.is_down = False
        self.thread = threading.Thread(target=self._run, name="live", daemon=True)
        self.thread.start()

    def send(self, positions: PositionRange) -> None:
        self.loop.call_soon_threadsafe(self._add, positions)

    def close(self) -> None:
        """Waits a few seconds until pending messages are sent."""
        self.loop.call_soon_threadsafe(self.loop.create_task, self._finish())
        self.thread.join(2 * SEND_TIMEOUT)

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()  # also closes the connections of the channel layer

    def _add(self, positions: PositionRange) -> None:
        """Sends the events, or merges them into the next message while one is being sent: no queue builds up."""
        self.pending = positions if self.pending is None else self.pending.extend(positions)
        if not self.is_sending:
            self.is_sending = True
            self.loop.create_task(self._send_pending())

    async def _send_pending(self) -> None:
        while self.pending is not None:
            positions, self.pending = self.pending, None
            await self._send_message(positions)
        self.is_sending = False

    async def _send_message(self, positions: PositionRange) -> None:
        try:
            layer: Any = get_channel_layer()
            await asyncio.wait_for(layer.group_send(GROUP, positions.to_message(self.epoch)), SEND_TIMEOUT)
        except Exception as error:  # noqa: BLE001 - receivers read what they missed from the journal
            if not self.is_down:
                log.warning("live_broadcast_failed", error=type(error).__name__)
            self.is_down = True
        else:
            self.is_down = False

    async def _finish(self) -> None:
        while self.is_sending:
            await asyncio.sleep(0.01)
        self.loop.stop()
