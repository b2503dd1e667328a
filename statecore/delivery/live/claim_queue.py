"""The queue of claims that wait for a task. Each is a future and holds no thread; a queued task wakes suitable ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from weakref import WeakKeyDictionary

from ...scheduling.matching import find_workers_to_wake
from .hub import Hub, get_hub
from .reader import NO_DATABASE

MAX_WAITING = 5_000
POLL_SECONDS = 2.0  # for tasks that become claimable without a message


class ClaimQueue:
    """Wakes workers when tasks are queued: the longest-waiting first, and only workers that could claim one of them."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.waiting: dict[int, tuple[str, asyncio.Future[None]]] = {}
        self._numbers = count()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        return len(self.waiting) >= MAX_WAITING

    @asynccontextmanager
    async def join(self, worker_id: str) -> AsyncIterator[Ticket]:
        """Yields a place in the queue; the hub runs while the context is open."""
        async with self.hub.watch():
            yield Ticket(self, worker_id, next(self._numbers))

    def _add(self, ticket: Ticket) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[ticket.number] = (ticket.worker_id, future)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return future

    async def _run(self) -> None:
        """Wakes workers whenever tasks were queued, and all of them when the server stops."""
        while self.waiting:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.hub.tasks_queued.wait(), POLL_SECONDS)
            if self.hub.closing.is_set():
                for _worker, future in self.waiting.values():
                    _wake(future)
                return
            self.hub.tasks_queued.clear()
            await self.wake_matching(sorted(self.waiting))

    async def wake_matching(self, order: list[int]) -> None:
        workers = list(dict.fromkeys(self.waiting[number][0] for number in order))
        chosen: set[str] = set()
        with suppress(*NO_DATABASE):
            chosen.update(await self.hub.reader.run(find_workers_to_wake, workers))
        for number in order:
            worker_id, future = self.waiting.get(number, ("", None))
            if future is not None and worker_id in chosen:
                chosen.discard(worker_id)
                _wake(future)


class Ticket:
    """A worker's place in the queue, which it keeps if it is woken and another worker claims the task first."""

    def __init__(self, queue: ClaimQueue, worker_id: str, number: int) -> None:
        self.queue, self.worker_id, self.number = queue, worker_id, number

    async def wait(self) -> None:
        """Returns when the worker may be able to claim a task, or when the server stops."""
        future = self.queue._add(self)
        try:
            # A task may have been queued after the claim that found none.
            await self.queue.wake_matching([self.number])
            await future
        finally:
            self.queue.waiting.pop(self.number, None)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_queues: WeakKeyDictionary[Hub, ClaimQueue] = WeakKeyDictionary()


def get_claim_queue() -> ClaimQueue:
    hub = get_hub()
    if hub not in _queues:
        _queues[hub] = ClaimQueue(hub)
    return _queues[hub]
