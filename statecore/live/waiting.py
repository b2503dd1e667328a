"""Workers that wait for a task: a future each and no thread. A queued task wakes those that could take it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from weakref import WeakKeyDictionary

from ..scheduling.matching import worth_asking
from .following import Following, Wanted
from .hub import Hub, hub
from .reader import NO_DATABASE
from .ring import TooOld

MOST = 5_000
TICK = 2.0  # for what no event tells of
QUEUED = Wanted(entity_type=frozenset({"task"}), to_state=frozenset({"queued"}))


class Waiting:
    """First come, first served: who has waited longest is woken first, and nobody is woken for nothing."""

    def __init__(self, of: Hub) -> None:
        self.hub = of
        self.turns: dict[int, tuple[str, asyncio.Future[None]]] = {}
        self._numbers = count()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        return len(self.turns) >= MOST

    @asynccontextmanager
    async def turn(self, worker_id: str) -> AsyncIterator[Turn]:
        async with self.hub.watching():
            yield Turn(self, worker_id, next(self._numbers))

    def _wait(self, turn: Turn) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.turns[turn.number] = (turn.worker_id, future)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._match())
        return future

    async def _match(self) -> None:
        """Looks once at the start: a task may have been queued between a claim that found none and the wait."""
        while self.turns:
            following = Following(self.hub, self.hub.ring.last, QUEUED)
            with suppress(*NO_DATABASE):
                await self._wake_those_who_may_claim()
            await self._news(following)

    async def _news(self, following: Following) -> None:
        with suppress(TimeoutError, TooOld):
            async with asyncio.timeout(TICK):
                while not self.hub.closing.is_set() and following.take(_seen) is None:
                    await self.hub.beyond(following.position, TICK)
        if self.hub.closing.is_set():
            for _worker, future in self.turns.values():
                _wake(future)

    async def _wake_those_who_may_claim(self) -> None:
        order = sorted(self.turns)
        workers = list(dict.fromkeys(self.turns[number][0] for number in order))
        chosen = set(await self.hub.reader.ask(worth_asking, workers))
        for number in order:
            worker_id, future = self.turns.get(number, ("", None))
            if future is not None and worker_id in chosen:
                chosen.discard(worker_id)
                _wake(future)


class Turn:
    """One worker's place in the line; it keeps it when it is woken and finds that another was faster."""

    def __init__(self, waiting: Waiting, worker_id: str, number: int) -> None:
        self.waiting, self.worker_id, self.number = waiting, worker_id, number

    async def comes(self) -> None:
        future = self.waiting._wait(self)
        try:
            await future
        finally:
            self.waiting.turns.pop(self.number, None)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _seen(events: object) -> bytes:
    return b"queued"


_lines: WeakKeyDictionary[Hub, Waiting] = WeakKeyDictionary()


def the_line() -> Waiting:
    here = hub()
    if here not in _lines:
        _lines[here] = Waiting(here)
    return _lines[here]
