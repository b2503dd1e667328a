"""Everybody who is here, looked at again and again: who may not stay is shown out within a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import WeakKeyDictionary

from statecore.kernel.refusals import Refusal
from statecore.live import Hub
from statecore.live.reader import NO_DATABASE

from ..refusals import Unavailable
from .visitor import Visitor, gone

EVERY = 20.0
MOST = 5_000


class Presence:
    """One round for all: a token that a hundred sockets have shown is asked for once."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.here: dict[Visitor, set[asyncio.Event]] = {}
        self.count = 0
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def of(self, visitor: Visitor) -> Iterator[asyncio.Event]:
        """The event is set when the visitor has to go."""
        leaving = asyncio.Event()
        self.here.setdefault(visitor, set()).add(leaving)
        self.count += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_around())
        try:
            yield leaving
        finally:
            self.count -= 1
            self.here[visitor].discard(leaving)
            if not self.here[visitor]:
                del self.here[visitor]

    def check_room(self) -> Refusal | None:
        return Unavailable("too many streams are open here", retry_after=10) if self.count >= MOST else None

    async def _look_around(self) -> None:
        while self.here:
            await asyncio.sleep(EVERY)
            with suppress(*NO_DATABASE, RuntimeError):  # the reader may just have been put away, with the last visitor
                for visitor in await self.hub.reader.ask(gone, list(self.here)):
                    for leaving in self.here.get(visitor, ()):
                        leaving.set()


_presences: WeakKeyDictionary[Hub, Presence] = WeakKeyDictionary()


def presence(hub: Hub) -> Presence:
    if hub not in _presences:
        _presences[hub] = Presence(hub)
    return _presences[hub]
