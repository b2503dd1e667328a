"""Follows the journal for the whole process: woken by the channel layer, and every second in case a message was lost.

A message brings the events themselves, so that as long as all is well the database is asked once a second, however
many watch. Whoever watches only remembers a position and takes from the ring what comes after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

import structlog
from channels.layers import get_channel_layer

from ..sinks.live import GROUP
from . import reader
from .reader import NO_DATABASE, Reader
from .ring import MOST_EVENTS, Ring, Told

log = structlog.get_logger(__name__)

TICK = 1.0
PATIENCE = 5.0  # with a database that has more than one thing to do
PORTION = 1_000


class Hub:
    def __init__(self) -> None:
        self.watchers = 0
        self.ring = Ring(0)
        self.reader = Reader()
        self.frames: dict[Any, Any] = {}  # what was written for one watcher and is the same for others
        self.is_ready = asyncio.Event()
        self.closing = asyncio.Event()
        self._news = asyncio.Event()
        self._wake = asyncio.Event()
        self._reaching = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """As long as anybody does, the journal is followed."""
        self.watchers += 1
        if self.watchers == 1:
            self._begin()
        try:
            await self.is_ready.wait()
            yield
        finally:
            self.watchers -= 1
            if self.watchers == 0:
                self._end()

    def _begin(self) -> None:
        self.reader = Reader()
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._listen())]

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.reader.close()
        self.is_ready.clear()

    async def beyond(self, position: int, seconds: float) -> bool:
        """Wait until there is something after a position; False when the time is up or the server ends."""
        if self.ring.last > position:
            return True  # as a rule, where much happens; a timer for nothing would be a good part of what a frame costs
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.ring.last <= position and not self.closing.is_set():
                    await self._news.wait()
        return self.ring.last > position

    async def reach(self, position: int) -> bool:
        """Have come as far as this: who has read the journal by itself may be ahead. False where there is none yet."""
        if self.ring.last < position <= await self.reader.ask(reader.head):
            self._wake.set()
            await self.beyond(position - 1, PATIENCE)
        return self.ring.last >= position

    async def reach_back(self, position: int) -> bool:
        """Have what follows this position at hand; False when that is too much. Many who come back read it once."""
        async with self._reaching:
            start = self.ring.start
            if position >= start:
                return True
            if self.ring.last - position > MOST_EVENTS:
                return False
            if position < await self.reader.ask(reader.horizon):
                return False
            older = await self.reader.ask(reader.between, position, start)
            if self.ring.start == start:
                self.ring.add_older(older, position)
            return position >= self.ring.start

    def close(self) -> None:
        """The server ends: whoever watches is to go."""
        self.closing.set()
        self._ring_out()

    async def _follow(self) -> None:
        is_down = False
        while True:
            try:
                await self._catch_up()
            except NO_DATABASE as error:
                if not is_down:
                    log.warning("live_lost_the_database", error=str(error).strip().partition("\n")[0])
                is_down = True
            else:
                is_down = False
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK):
                    await self._wake.wait()

    async def _catch_up(self) -> None:
        head = await self.reader.ask(reader.head)
        if not self.is_ready.is_set() or head - self.ring.last > MOST_EVENTS:
            self.ring = Ring(head)
            self.is_ready.set()
            self._ring_out()
        while self.ring.last < head:
            upto = min(head, self.ring.last + PORTION)
            events = await self.reader.ask(reader.between, self.ring.last, upto)
            if not events and self.ring.last < await self.reader.ask(reader.horizon):
                self.ring = Ring(head)  # after a very long absence: who watches is too old
            else:
                self._add(events, upto)

    def _add(self, events: list[Told], last: int) -> None:
        if self.ring.add(events, last):
            self._ring_out()

    def _ring_out(self) -> None:
        self.frames.clear()
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _listen(self) -> None:
        while not _is_to_end():
            try:
                await self._hear_all()
            except Exception as error:  # noqa: BLE001 - without Redis the journal is read every second
                log.warning("live_cannot_listen", error=type(error).__name__)
                await asyncio.sleep(TICK)

    async def _hear_all(self) -> None:
        layer: Any = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(GROUP, channel)
        try:
            while not _is_to_end():
                self._hear(await layer.receive(channel))
        finally:
            with suppress(Exception):
                await layer.group_discard(GROUP, channel)

    def _hear(self, message: dict[str, Any]) -> None:
        """What follows on what is known is taken as it is; anything else is a reason to look."""
        if not self.is_ready.is_set() or message["last"] <= self.ring.last:
            return
        if message["events"] is None or message["first"] > self.ring.last + 1:
            self._wake.set()
            return
        self._add([Told.of(each["position"], each["event"]) for each in message["events"]], message["last"])


def _is_to_end() -> bool:
    """Asked for, because it may not have been heard: a client of Redis that is cancelled at the moment it has sent a
    command goes on as if nothing had been said (redis/redis-py#2028; `asyncio.wait_for` of Python 3.11)."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """The one of this loop, which is the one of this process."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]


def close_all() -> None:
    """Safe to call from a signal handler or another thread."""
    for loop, each in list(_hubs.items()):
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(each.close)
