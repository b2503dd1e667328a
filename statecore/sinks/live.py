"""Tells whoever is watching: what was numbered goes over Channels to one group, one message at a time.

The message is a hint, the journal is the truth: it names the positions it brings, and who has missed some, because
Redis was away or there were too many to carry, reads them. So nothing here is tried again.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, NamedTuple

import structlog
from channels.layers import get_channel_layer

from .numbered import Batch, Numbered
from .sink import Sink

log = structlog.get_logger(__name__)

GROUP = "journal"
MESSAGE = "journal.news"  # the consumers' method journal_news
MOST_EVENTS = 100  # more than anybody shows at once; a message must stay small
PATIENCE = 2.0


class News(NamedTuple):
    """A range of positions, with their events unless there are too many."""

    first: int
    last: int
    events: Batch

    def followed_by(self, batch: list[Numbered]) -> News:
        return News(self.first, batch[-1].position, [*self.events, *batch][: MOST_EVENTS + 1])

    def message(self) -> dict[str, Any]:
        fits = len(self.events) <= MOST_EVENTS
        events = [{"position": event.position, "event": event.told} for event in self.events] if fits else None
        return {"type": MESSAGE, "first": self.first, "last": self.last, "events": events}


class Live(Sink):
    name = "live"

    def __init__(self) -> None:
        self.caster: Caster | None = None

    def deliver(self, batch: Batch) -> None:
        if self.caster is None:
            self.caster = Caster()
        self.caster.tell(batch)

    def close(self) -> None:
        if self.caster is not None:
            self.caster.end()
            self.caster = None


class Caster:
    """A loop in a thread of its own, so that the sequencer never waits for Redis, and the connection stays."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.news: News | None = None
        self.is_sending = self.is_down = False
        self.thread = threading.Thread(target=self._run, name="live", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()  # which closes the layer's connections, too

    def tell(self, batch: Batch) -> None:
        self.loop.call_soon_threadsafe(self._add, batch)

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.create_task, self._finish())
        self.thread.join(2 * PATIENCE)

    def _add(self, batch: Batch) -> None:
        """While a message is under way what comes is gathered: a slow Redis gets fewer messages, not a queue."""
        if self.news is None:
            self.news = News(batch[0].position, batch[-1].position, batch)
        else:
            self.news = self.news.followed_by(batch)
        if not self.is_sending:
            self.is_sending = True
            self.loop.create_task(self._send_all())

    async def _send_all(self) -> None:
        while self.news is not None:
            news, self.news = self.news, None
            await self._send(news)
        self.is_sending = False

    async def _send(self, news: News) -> None:
        try:
            layer: Any = get_channel_layer()
            await asyncio.wait_for(layer.group_send(GROUP, news.message()), PATIENCE)
        except Exception as error:  # noqa: BLE001 - whoever missed it reads it from the journal
            if not self.is_down:
                log.warning("live_is_down", error=type(error).__name__)
            self.is_down = True
        else:
            self.is_down = False

    async def _finish(self) -> None:
        while self.is_sending:
            await asyncio.sleep(0.01)
        self.loop.stop()
