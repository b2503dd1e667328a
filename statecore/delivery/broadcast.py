"""Broadcasts news to one Channels group, one message at a time, and receives it in the web processes.

Messages may be lost, so nothing depends on them: a receiver reads what it missed from the database.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Generic, Protocol, Self, TypeVar

import structlog
from channels.layers import get_channel_layer

log = structlog.get_logger(__name__)

SEND_TIMEOUT = 2.0


class News(Protocol):
    def extend(self, following: Self) -> Self:
        """Returns the news of both, as one message."""

    def to_message(self) -> dict[str, Any]: ...


N = TypeVar("N", bound=News)


class Broadcaster(Generic[N]):
    """Sends from an event loop in a separate thread, so that the caller never waits for Redis."""

    def __init__(self, group: str, pause: float = 0.0) -> None:
        """Sends to a Channels group, with a pause after each message."""
        self.group, self.pause = group, pause
        self.loop = asyncio.new_event_loop()
        self.pending: N | None = None
        self.is_sending = self.is_down = False
        self.thread = threading.Thread(target=self._run, name=f"broadcast {group}", daemon=True)
        self.thread.start()

    def send(self, news: N) -> None:
        self.loop.call_soon_threadsafe(self._add, news)

    def close(self) -> None:
        """Waits a few seconds until pending messages are sent."""
        self.loop.call_soon_threadsafe(self.loop.create_task, self._finish())
        self.thread.join(2 * SEND_TIMEOUT)

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()  # also closes the connections of the channel layer

    def _add(self, news: N) -> None:
        """Sends the news, or merges them into the next message while one is being sent: no queue builds up."""
        self.pending = news if self.pending is None else self.pending.extend(news)
        if not self.is_sending:
            self.is_sending = True
            self.loop.create_task(self._send_pending())

    async def _send_pending(self) -> None:
        while self.pending is not None:
            news, self.pending = self.pending, None
            await self._send_message(news)
            await asyncio.sleep(self.pause)
        self.is_sending = False

    async def _send_message(self, news: N) -> None:
        try:
            layer: Any = get_channel_layer()
            await asyncio.wait_for(layer.group_send(self.group, news.to_message()), SEND_TIMEOUT)
        except Exception as error:  # noqa: BLE001 - receivers read what they missed from the database
            if not self.is_down:
                log.warning("live_broadcast_failed", group=self.group, error=type(error).__name__)
            self.is_down = True
        else:
            self.is_down = False

    async def _finish(self) -> None:
        while self.is_sending:
            await asyncio.sleep(0.01)
        self.loop.stop()


def announce(group: str, news: News, pause: float) -> None:
    """Sends news from any process; returns at once and raises nothing. What comes during the pause is one message."""
    _get_broadcaster(os.getpid(), group, pause).send(news)


@cache
def _get_broadcaster(process: int, group: str, pause: float) -> Broadcaster[Any]:
    """Returns the broadcaster of this process: a server may fork after it has started one."""
    return Broadcaster(group, pause)


async def receive(group: str, handle: Callable[[dict[str, Any]], None], pause: float) -> None:
    """Passes each message of a group to `handle` until the task is cancelled; an error is followed by a pause."""
    while not _is_cancelled():
        try:
            await _receive_messages(group, handle)
        except Exception as error:  # noqa: BLE001 - without Redis, polling continues
            log.warning("live_channel_layer_failed", group=group, error=type(error).__name__)
            await asyncio.sleep(pause)


async def _receive_messages(group: str, handle: Callable[[dict[str, Any]], None]) -> None:
    layer: Any = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(group, channel)
    try:
        while not _is_cancelled():
            handle(await layer.receive(channel))
    finally:
        with suppress(Exception):
            await layer.group_discard(group, channel)


def _is_cancelled() -> bool:
    """Whether the running task was cancelled.

    It is checked explicitly, because the Redis client may swallow a cancellation that arrives just after it has sent a
    command (redis/redis-py#2028; `asyncio.wait_for` of Python 3.11).
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
