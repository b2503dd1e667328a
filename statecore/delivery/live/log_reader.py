"""Follows the logs of tasks for all viewers of a process.

New lines are announced through the channel layer, and the end of an attempt is an event of the journal. Both only say
which logs to read: one statement reads what is new in all of them, however many viewers follow them. A lost message
costs at most one poll.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import orjson
import structlog

from ...read_models import task_logs
from ...read_models.task_logs import Chunk, TaskState
from .. import broadcast
from ..log_news import GROUP
from .hub import Hub, get_hub
from .ring import PositionTooOld, StreamEvent
from .subscription import EventFilter, Subscription

log = structlog.get_logger(__name__)

POLL_SECONDS = 2.0
PAUSE_SECONDS = 0.05  # between two reads, so that lines that come at once are read together
CHUNKS_PER_READ = 500
CHUNKS_PER_PART = 20
BYTES_PER_LOG = 256 * 1024  # of the newest lines, kept for all viewers of a log
ENDED_ATTEMPTS = EventFilter(entity_type=frozenset({"task"}), from_state=frozenset({"running"}))


class Part(NamedTuple):
    """The rendered lines of a chunk, after a number."""

    chunk: Chunk
    after: int
    text: bytes

    @classmethod
    def render(cls, chunk: Chunk, after: int = 0) -> Part:
        lines = [line for line in chunk.lines() if line.number > after]
        text = b"".join(b"id: %d\ndata: %b\n\n" % (line.number, orjson.dumps(line._asdict())) for line in lines)
        return cls(chunk, max(chunk.first - 1, after), text)

    def skip_to(self, position: int) -> Part:
        return self if position <= self.after else Part.render(self.chunk, position)

    @property
    def attempt(self) -> int:
        return self.chunk.attempt

    @property
    def last(self) -> int:
        return self.chunk.last


class FollowedLog:
    """The newest lines of a log and the state of its task, for all viewers of this task."""

    def __init__(self, task_id: str, last: int, state: TaskState) -> None:
        self.task_id, self.start, self.last, self.task_state = task_id, last, last, state
        self.parts: deque[Part] = deque()
        self.size = self.viewers = self.version = 0
        self.changed = asyncio.Event()

    def add(self, chunk: Chunk) -> None:
        if chunk.last <= self.last:
            return
        self.parts.append(Part.render(chunk, self.last))
        self.size, self.last = self.size + len(self.parts[-1].text), chunk.last
        while self.size > BYTES_PER_LOG and len(self.parts) > 1:
            oldest = self.parts.popleft()
            self.size, self.start = self.size - len(oldest.text), oldest.last

    def read_after(self, position: int) -> list[Part]:
        """Returns the parts after a position that is not before the start of the memory.

        A position is the end of a part, unless the caller chose it.
        """
        found = [part for part in self.parts if part.last > position]
        return [found[0].skip_to(position), *found[1:]] if found else []

    def notify(self) -> None:
        self.version += 1
        news, self.changed = self.changed, asyncio.Event()
        news.set()

    async def wait_beyond(self, version: int, seconds: float) -> None:
        """Waits for new lines or another state of the task, or until the time-out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.version == version:
                    await self.changed.wait()


class LogReader:
    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.logs: dict[str, FollowedLog] = {}
        self.due: set[str] = set()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def follow(self, task_id: str) -> AsyncIterator[FollowedLog]:
        """Yields the log of an existing task, which is kept up to date while the context is open."""
        async with self.hub.watch():
            if task_id not in self.logs:
                made = await self.hub.reader.run(_begin, task_id)
                self.logs.setdefault(task_id, made)
            followed = self.logs[task_id]
            followed.viewers += 1
            if not self._tasks:
                news = broadcast.receive(GROUP, self._handle_message, POLL_SECONDS)
                jobs = (self._read_repeatedly(), news, self._watch_attempts())
                self._tasks = [asyncio.create_task(job) for job in jobs]
            try:
                yield followed
            finally:
                followed.viewers -= 1
                if not followed.viewers:
                    self.logs.pop(task_id, None)
                if not self.logs:
                    self._stop()

    async def read_stored(self, task_id: str, after: int) -> list[Part]:
        """Returns what has left the memory of this process, or was never in it: the next chunks after a number."""
        chunks = await self.hub.reader.run(task_logs.read_news, {task_id: after}, CHUNKS_PER_PART)
        return [Part.render(chunk, after) for chunk in chunks]

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    def _handle_message(self, message: dict[str, Any]) -> None:
        self._mark_due(message["tasks"])

    def _mark_due(self, task_ids: Any) -> None:
        if found := self.logs.keys() & task_ids:
            self.due |= found
            self._wake.set()

    async def _read_repeatedly(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()
            due, self.due = self.due or set(self.logs), set()  # all of them after the time-out
            self._wake.clear()
            try:
                await self._read(due)
            except Exception as error:  # noqa: BLE001 - without the database, or after a damaged chunk, polling continues
                log.warning("log_reader_failed", error=f"{type(error).__name__}: {error}".strip().partition("\n")[0])
                await asyncio.sleep(POLL_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _read(self, task_ids: set[str]) -> None:
        """Reads the states of these tasks, then the new lines of their logs, and wakes the viewers of both."""
        known = {task_id: self.logs[task_id].last for task_id in task_ids if task_id in self.logs}
        states, chunks = await self.hub.reader.run(_read_changes, known)
        changed = {chunk.task_id for chunk in chunks}
        for chunk in chunks:
            if chunk.task_id in self.logs:
                self.logs[chunk.task_id].add(chunk)
        if len(chunks) == CHUNKS_PER_READ:  # the states may be ahead of the lines that are not read yet
            self._mark_due(known)
        else:
            for task_id, state in states.items():
                if task_id in self.logs and self.logs[task_id].task_state != state:
                    self.logs[task_id].task_state = state
                    changed.add(task_id)
        for task_id in changed & self.logs.keys():
            self.logs[task_id].notify()

    async def _watch_attempts(self) -> None:
        """Marks the logs of attempts that have ended."""
        subscription = Subscription(self.hub, self.hub.ring.last, ENDED_ATTEMPTS)
        while not self.hub.closing.is_set():  # from then on it waits for nothing
            await subscription.wait(POLL_SECONDS)
            try:
                while found := subscription.take_from_memory(_list_entities):
                    self._mark_due(found)
            except PositionTooOld:  # the next poll reads all states
                subscription.skip_to_end()


def _begin(task_id: str) -> FollowedLog:
    states = task_logs.read_states([task_id])
    last = task_logs.find_last_numbers([task_id]).get(task_id, 0)
    return FollowedLog(task_id, last, states[task_id])


def _read_changes(known: dict[str, int]) -> tuple[dict[str, TaskState], list[Chunk]]:
    """Reads the states first: the lines of an attempt that has ended are then complete."""
    return task_logs.read_states(known), task_logs.read_news(known, CHUNKS_PER_READ)


def _list_entities(events: list[StreamEvent], epoch: int) -> frozenset[str]:
    return frozenset(event.entity for event in events)


_readers: WeakKeyDictionary[Hub, LogReader] = WeakKeyDictionary()


def get_log_reader() -> LogReader:
    hub = get_hub()
    if hub not in _readers:
        _readers[hub] = LogReader(hub)
    return _readers[hub]
