"""What watchers are told, and that a Redis that is away loses nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any, Self

import pytest
from channels.layers import channel_layers, get_channel_layer

from statecore.records.position import head
from statecore.records.sink_cursor import place_of
from statecore.sinks import live
from statecore.sinks.live import GROUP, MOST_EVENTS, Live
from tests.support import world
from tests.support.sequencer import catch_up
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


class Watcher:
    """A consumer in a thread of its own: it hears what the group is told."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.ready, self.over = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._listen()))

    async def _listen(self) -> None:
        layer: Any = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(GROUP, channel)
        self.ready.set()
        while not self.over.is_set():
            try:
                self.heard.append(await asyncio.wait_for(layer.receive(channel), 0.2))
            except TimeoutError:
                continue
        await layer.flush()

    def __enter__(self) -> Self:
        self.thread.start()
        assert self.ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join(10)

    def covers(self) -> int:
        return max((message["last"] for message in self.heard), default=0)


@pytest.fixture
def layers(settings, monkeypatch):
    """The layer is made anew with the settings of the test. A busy machine is not a Redis that is away."""
    channel_layers.backends.clear()
    monkeypatch.setattr(live, "PATIENCE", 30.0)
    yield settings
    channel_layers.backends.clear()


def test_events_are_told_with_their_positions(redis_server, layers) -> None:
    with Watcher() as watcher:
        run = world.run()
        catch_up(Live())
        until(lambda: watcher.covers() == head())

    (message,) = watcher.heard
    assert (message["first"], message["last"]) == (1, 1)
    assert message["events"] == [{"position": 1, "event": world.last_event(run)}]


def test_many_events_are_told_by_their_positions_alone(redis_server, layers) -> None:
    with Watcher() as watcher:
        phase = world.phase()
        for _ in range(MOST_EVENTS + 1):
            world.run(phase=phase)
        catch_up(Live())
        until(lambda: watcher.covers() == head())

    assert [(message["first"], message["last"], message["events"]) for message in watcher.heard] == [(1, head(), None)]


def test_without_redis_the_cursor_moves_on_and_later_news_come_through(redis_server, layers, caplog) -> None:
    there = layers.CHANNEL_LAYERS
    layers.CHANNEL_LAYERS = {
        "default": {**there["default"], "CONFIG": {"hosts": ["unix:///nowhere/redis.sock"]}},
    }
    world.run()
    with caplog.at_level(logging.WARNING):
        catch_up(Live())
    assert place_of("live") == head() == 1
    assert "live_is_down" in caplog.text

    layers.CHANNEL_LAYERS = there
    channel_layers.backends.clear()
    with Watcher() as watcher:
        world.run()
        catch_up(Live())
        until(lambda: watcher.covers() == head())
    assert watcher.heard[0]["first"] == 2
