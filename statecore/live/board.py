"""The board, computed once for all who look at it: a snapshot, and what changed since the one before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from .. import board
from .hub import Hub, hub
from .reader import NO_DATABASE

PACE = 0.5  # two a second, whatever the load
QUIET = 5.0  # what changes with the clock alone: rates, what is stuck, alerts


class Board:
    def __init__(self, of: Hub) -> None:
        self.hub = of
        self.watchers = 0
        self.version = 0
        self.standing: board.Standing | None = None
        self.stats: dict[str, Any] = {}
        self.snapshot = self.delta = b""
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        async with self.hub.watching():
            self.watchers += 1
            if self.watchers == 1:
                self._task = asyncio.create_task(self._compute())
            try:
                await self.beyond(0, QUIET)
                yield
            finally:
                self.watchers -= 1
                if self.watchers == 0 and self._task is not None:
                    self._task.cancel()
                    self.version, self.stats = 0, {}

    async def beyond(self, version: int, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.version <= version:
                    await self._news.wait()
        return self.version > version

    async def _compute(self) -> None:
        while True:
            with suppress(*NO_DATABASE):
                self._tell(await self.hub.reader.ask(board.standing))
            await asyncio.sleep(PACE)
            # The counters may be a moment behind the news: what they lacked is looked for again.
            await self.hub.beyond(self.stats.get("position", 0), QUIET)

    def _tell(self, standing: board.Standing) -> None:
        stats = board.told(standing)
        patch = board.patch_between(self.stats, stats)
        if not patch and self.version:
            return
        self.standing, self.stats, self.version = standing, stats, self.version + 1
        self.snapshot = orjson.dumps({"type": "snapshot", **stats})
        self.delta = orjson.dumps({"type": "delta", **patch})
        news, self._news = self._news, asyncio.Event()
        news.set()

    def told_after(self, version: int) -> bytes:
        """The difference for who has the version before, everything for anybody else."""
        return self.delta if version and version == self.version - 1 else self.snapshot


_boards: WeakKeyDictionary[Hub, Board] = WeakKeyDictionary()


def the_board() -> Board:
    here = hub()
    if here not in _boards:
        _boards[here] = Board(here)
    return _boards[here]
