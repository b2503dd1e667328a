"""Keeps the latest events of the journal in memory, for all clients of a process.

New events arrive as messages of the channel layer. Once a second the hub also checks the journal for events without a
message, so in normal operation it queries the database once a second, however many clients there are. A client
remembers only its position, and reads later events from the ring.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

import structlog

from ...journal import archive
from ...journal import position as positions
from .. import broadcast, queue_news
from ..sinks.live import GROUP
from . import reader
from .reader import NO_DATABASE, Reader
from .ring import MAX_EVENTS, OtherEpoch, Ring, StreamEvent

log = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
CATCH_UP_TIMEOUT = 5.0
EVENTS_PER_READ = 1_000


class Hub:
    def __init__(self) -> None:
        self.watchers = 0
        self.ring = Ring(0)
        self.reader = Reader()
        self.frames: dict[Any, Any] = {}  # rendered frames, shared between clients until the next event
        self.is_ready = asyncio.Event()
        self.closing = asyncio.Event()
        # Set when tasks were queued, before their events arrive, and when the server stops.
        self.tasks_queued = asyncio.Event()
        self._changed = asyncio.Event()
        self._wake = asyncio.Event()
        self._loading = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Keeps the hub running while the context is open: the first client starts it, the last one stops it."""
        self.watchers += 1
        if self.watchers == 1:
            self.reader = Reader()
            jobs = (
                self._follow_journal(),
                broadcast.receive(GROUP, self._handle_message, POLL_SECONDS),
                broadcast.receive(queue_news.GROUP, lambda _message: self.tasks_queued.set(), POLL_SECONDS),
            )
            self._tasks = [asyncio.create_task(job) for job in jobs]
        try:
            await self.is_ready.wait()
            yield
        finally:
            self.watchers -= 1
            if self.watchers == 0:
                for task in self._tasks:
                    task.cancel()
                self.reader.close()
                self.is_ready.clear()

    @property
    def epoch(self) -> int:
        return self.ring.epoch

    async def wait_beyond(self, position: int, seconds: float, epoch: int | None = None) -> bool:
        """Waits for an event after a position, or for the end of the epoch if one is given.

        Returns False after the time-out or when the server stops.
        """
        if self._is_beyond(position, epoch):
            return True  # the usual case under load, in which a timer would be a large part of the cost
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_beyond(position, epoch) and not self.closing.is_set():
                    await self._changed.wait()
        return self._is_beyond(position, epoch)

    def _is_beyond(self, position: int, epoch: int | None) -> bool:
        return self.ring.last > position or (epoch is not None and self.ring.epoch != epoch)

    async def catch_up_to_epoch(self, epoch: int) -> bool:
        """Waits until the hub has reached an epoch; returns False if the database of this process does not have it."""
        if self.epoch < epoch <= await self.reader.run(positions.current_epoch):
            self._wake.set()
            await self.wait_beyond(self.ring.last, CATCH_UP_TIMEOUT, self.epoch)
        return self.epoch >= epoch

    async def catch_up_to(self, position: int) -> bool:
        """Waits until the hub has reached a position; returns False if the journal does not have it.

        A client that has read the journal with another call may be ahead of the hub.
        """
        if self.ring.last < position <= await self.reader.run(positions.head):
            self._wake.set()
            await self.wait_beyond(position - 1, CATCH_UP_TIMEOUT)
        return self.ring.last >= position

    async def load_back_to(self, position: int) -> None:
        """Loads the events after a position into memory if they fit, so that reconnecting clients share one query.

        Raises PositionTooOld if these events have been archived.
        """
        async with self._loading:
            ring, start = self.ring, self.ring.start
            if position >= start:
                return
            if ring.last - position > MAX_EVENTS:
                await self.reader.run(reader.check_retained, position)
                return
            older = await self.reader.run(reader.read_retained_events, ring.epoch, position, start)
            if self.ring is ring and ring.start == start:
                ring.add_older(older, position)

    def close(self) -> None:
        """Wakes all clients, which then disconnect because the server stops."""
        self.closing.set()
        self.tasks_queued.set()
        self._notify()

    async def _follow_journal(self) -> None:
        is_down = False
        while True:
            try:
                await self._catch_up()
            except OtherEpoch:
                continue
            except NO_DATABASE as error:
                if not is_down:
                    log.warning("live_lost_database", error=str(error).strip().partition("\n")[0])
                is_down = True
            else:
                is_down = False
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()

    async def _catch_up(self) -> None:
        epoch, head = await self.reader.run(positions.read_extent)
        is_other_epoch = self.is_ready.is_set() and epoch != self.epoch
        if is_other_epoch:
            log.warning("live_epoch_changed", before=self.epoch, now=epoch)
        if not self.is_ready.is_set() or is_other_epoch or head - self.ring.last > MAX_EVENTS:
            # After a failover the memory contains events that the database does not have.
            self.ring = Ring(head, epoch)
            self.is_ready.set()
            self._notify()
        while self.ring.last < head:
            last = min(head, self.ring.last + EVENTS_PER_READ)
            events = await self.reader.run(reader.read_events, epoch, self.ring.last, last)
            if not events and self.ring.last < await self.reader.run(archive.get_last_archived_position):
                self.ring = Ring(head, epoch)  # the next events were archived while the database was away
            else:
                self._add(events, last)

    def _add(self, events: list[StreamEvent], last: int) -> None:
        if self.ring.add(events, last):
            self._notify()

    def _notify(self) -> None:
        self.frames.clear()
        news, self._changed = self._changed, asyncio.Event()
        news.set()

    def _handle_message(self, message: dict[str, Any]) -> None:
        """Adds the events if the ring has all events before them; otherwise wakes the task that reads the journal.

        Never adds events of another epoch: a former leader may still send some.
        """
        if not self.is_ready.is_set():
            return
        if message.get("epoch", 1) != self.epoch:
            self._wake.set()
            return
        if message["last"] <= self.ring.last:
            return
        if message["events"] is None or message["first"] > self.ring.last + 1:
            self._wake.set()
            return
        events = [StreamEvent.serialize(each["position"], each["event"]) for each in message["events"]]
        self._add(events, message["last"])


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def get_hub() -> Hub:
    """Returns the hub of the running event loop. A server process has one loop, so it has one hub."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]


def close_all_hubs() -> None:
    """Disconnects all clients because the server stops; can be called from a signal handler or another thread."""
    for loop, each in list(_hubs.items()):
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(each.close)
