"""The live board, computed once per process: a snapshot, and the changes since the previous version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from ...read_models import board
from .hub import Hub, get_hub
from .reader import NO_DATABASE

MIN_INTERVAL = 0.5  # two updates a second, whatever the load
MAX_INTERVAL = 5.0  # for numbers that change without events: rates, overdue entities, alerts


class Board:
    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.watchers = 0
        self.version = 0
        self.stats: dict[str, Any] = {}
        self._snapshots: list[board.Snapshot] = []  # of this version and the previous one
        self._frames: dict[tuple[frozenset[str] | None, bool], str] = {}  # of this version, shared between clients
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Keeps the board up to date while the context is open: the first client starts it, the last one stops it."""
        async with self.hub.watch():
            self.watchers += 1
            if self.watchers == 1:
                self._task = asyncio.create_task(self._compute())
            try:
                await self.wait_beyond(0, MAX_INTERVAL)
                yield
            finally:
                self.watchers -= 1
                if self.watchers == 0 and self._task is not None:
                    self._task.cancel()
                    self.version, self.stats, self._snapshots = 0, {}, []

    async def wait_beyond(self, version: int, seconds: float) -> bool:
        """Waits for a later version; returns False after the time-out."""
        if self.version > version:
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.version <= version:
                    await self._changed.wait()
        return self.version > version

    async def _compute(self) -> None:
        while True:
            with suppress(*NO_DATABASE):
                self._publish(await self.hub.reader.run(board.take_snapshot))
            await asyncio.sleep(MIN_INTERVAL)
            # The board has the position of the counters. If they are behind the hub, this returns at once.
            await self.hub.wait_beyond(self.stats.get("position", 0), MAX_INTERVAL)

    def _publish(self, snapshot: board.Snapshot) -> None:
        stats = board.serialize_snapshot(snapshot)
        if stats == self.stats:
            return
        self.stats, self.version = stats, self.version + 1
        self._snapshots = [snapshot, *self._snapshots[:1]]
        self._frames.clear()
        news, self._changed = self._changed, asyncio.Event()
        news.set()

    def render_frame(self, version: int, visible: frozenset[str] | None = None) -> str:
        """Returns the message for a client that has `version`, with the machines that it may see, None for all.

        If that is the previous version, the message has only the changes since then, otherwise the whole board.
        """
        is_delta = 0 < version == self.version - 1
        if (visible, is_delta) not in self._frames:
            frame = self._render_delta(visible) if is_delta else self._render_snapshot(visible)
            self._frames[visible, is_delta] = orjson.dumps(frame).decode()
        return self._frames[visible, is_delta]

    def _render_snapshot(self, visible: frozenset[str] | None) -> dict[str, Any]:
        return {"type": "snapshot", **board.serialize_snapshot(self._snapshots[0], visible)}

    def _render_delta(self, visible: frozenset[str] | None) -> dict[str, Any]:
        now, before = (board.serialize_snapshot(snapshot, visible) for snapshot in self._snapshots)
        return {"type": "delta", **board.make_merge_patch(before, now)}


_boards: WeakKeyDictionary[Hub, Board] = WeakKeyDictionary()


def get_board() -> Board:
    hub = get_hub()
    if hub not in _boards:
        _boards[hub] = Board(hub)
    return _boards[hub]
