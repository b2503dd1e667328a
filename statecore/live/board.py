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
        self.stats: dict[str, Any] = {}
        self._standing: list[board.Standing] = []  # now, and one version before
        self._frames: dict[tuple[frozenset[str] | None, bool], str] = {}  # what others are told as well
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
                    self.version, self.stats, self._standing = 0, {}, []

    async def beyond(self, version: int, seconds: float) -> bool:
        if self.version > version:
            return True
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
        if stats == self.stats:
            return
        self.stats, self.version = stats, self.version + 1
        self._standing = [standing, *self._standing[:1]]
        self._frames.clear()
        news, self._news = self._news, asyncio.Event()
        news.set()

    def told_after(self, version: int, seen: frozenset[str] | None = None) -> str:
        """The difference for who has the version before, everything for anybody else; of these machines or of all."""
        is_next = 0 < version == self.version - 1
        if (seen, is_next) not in self._frames:
            self._frames[seen, is_next] = orjson.dumps(self._difference(seen) if is_next else self._all(seen)).decode()
        return self._frames[seen, is_next]

    def _all(self, seen: frozenset[str] | None) -> dict[str, Any]:
        return {"type": "snapshot", **board.told(self._standing[0], seen)}

    def _difference(self, seen: frozenset[str] | None) -> dict[str, Any]:
        now, before = (board.told(standing, seen) for standing in self._standing)
        return {"type": "delta", **board.patch_between(before, now)}


_boards: WeakKeyDictionary[Hub, Board] = WeakKeyDictionary()


def the_board() -> Board:
    here = hub()
    if here not in _boards:
        _boards[here] = Board(here)
    return _boards[here]
