"""Messages for live viewers; an unavailable Redis loses nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import Any, Self

import pytest
from channels.layers import channel_layers, get_channel_layer

from statecore.delivery import broadcast
from statecore.delivery.sinks.live import GROUP, MAX_EVENTS, Live
from statecore.journal.position import head
from statecore.records.sink_cursor import get_position
from tests.support import world
from tests.support.sequencer import catch_up
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


class Watcher:
    """A channel consumer in a thread that records the group's messages."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.listening = self.loop.create_task(self._listen())
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            self.loop.run_until_complete(self.listening)
        self.loop.close()

    async def _listen(self) -> None:
        """Receives without a timeout: one that ends while a message arrives would lose it."""
        layer: Any = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(GROUP, channel)
        self.ready.set()
        try:
            while True:
                self.received.append(await layer.receive(channel))
        finally:
            await layer.flush()

    def __enter__(self) -> Self:
        self.thread.start()
        assert self.ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.listening.cancel)
        self.thread.join(60)

    def last_position(self) -> int:
        return max((message["last"] for message in self.received), default=0)


@pytest.fixture
def layers(settings, monkeypatch):
    """Create the channel layer with the test's settings, and a timeout long enough for a busy host."""
    channel_layers.backends.clear()
    monkeypatch.setattr(broadcast, "SEND_TIMEOUT", 30.0)
    yield settings
    channel_layers.backends.clear()


def test_events_are_sent_with_their_positions(redis_server, layers) -> None:
    with Watcher() as watcher:
        run = world.run()
        catch_up(Live())
        until(lambda: watcher.last_position() == head())

    (message,) = watcher.received
    assert (message["first"], message["last"]) == (1, 1)
    assert message["events"] == [{"position": 1, "event": world.last_event(run)}]


def test_many_events_are_announced_by_their_positions_only(redis_server, layers) -> None:
    with Watcher() as watcher:
        phase = world.phase()
        for _ in range(MAX_EVENTS + 1):
            world.run(phase=phase)
        catch_up(Live())
        until(lambda: watcher.last_position() == head())

    assert [(message["first"], message["last"], message["events"]) for message in watcher.received] == [
        (1, head(), None)
    ]


def test_without_redis_the_cursor_advances_and_later_events_are_sent(redis_server, layers, caplog) -> None:
    available = layers.CHANNEL_LAYERS
    layers.CHANNEL_LAYERS = {
        "default": {**available["default"], "CONFIG": {"hosts": ["unix:///nowhere/redis.sock"]}},
    }
    world.run()
    with caplog.at_level(logging.WARNING):
        catch_up(Live())
    assert get_position("live") == head() == 1
    assert "live_broadcast_failed" in caplog.text

    layers.CHANNEL_LAYERS = available
    channel_layers.backends.clear()
    with Watcher() as watcher:
        world.run()
        catch_up(Live())
        until(lambda: watcher.last_position() == head())
    assert watcher.received[0]["first"] == 2
