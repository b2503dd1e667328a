"""What a client reads from the hub: the events after its position that match its filter.

The hub queues nothing for a client, so a slow one does not delay the others.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from ...journal.epochs import find_last_shared_position
from . import reader
from .hub import Hub
from .ring import EpochEnded, PositionTooOld, StreamEvent

EVENTS_PER_FRAME = 500
T = TypeVar("T")
Render = Callable[[list[StreamEvent], int], T]  # of events and their epoch


class EventFilter(NamedTuple):
    """For each field the values it may have; an empty set accepts every value."""

    entity_type: frozenset[str] = frozenset()
    entity: frozenset[str] = frozenset()
    run: frozenset[str] = frozenset()
    actor: frozenset[str] = frozenset()
    kind: frozenset[str] = frozenset()
    severity: frozenset[str] = frozenset()
    from_state: frozenset[str] = frozenset()
    to_state: frozenset[str] = frozenset()
    event_name: frozenset[str] = frozenset()

    @property
    def conditions(self) -> list[tuple[Callable[[StreamEvent], str], frozenset[str]]]:
        named = zip(self._fields, self, strict=True)
        return [(attrgetter(name), values) for name, values in named if values]


async def check_shared(hub: Hub, epoch: int, position: int) -> None:
    """Raises EpochEnded if a position of an earlier epoch means something else now."""
    kept = await hub.reader.run(find_last_shared_position, epoch)
    if position > kept:
        raise EpochEnded(kept)


class Subscription:
    def __init__(self, hub: Hub, position: int, event_filter: EventFilter) -> None:
        self.hub, self.position, self.event_filter = hub, position, event_filter
        self.epoch = hub.epoch
        self.conditions = event_filter.conditions

    @property
    def is_behind(self) -> bool:
        return self.hub.ring.last > self.position

    async def wait(self, seconds: float) -> None:
        """Waits until there may be something to take, or until the time-out."""
        await self.hub.wait_beyond(self.position, seconds, self.epoch)

    def skip_to_end(self) -> None:
        self.position, self.epoch = self.hub.ring.last, self.hub.epoch

    async def take(self, render: Render[T]) -> T | None:
        """Returns the next matching events as rendered by `render`; None if none of the events it has read matches.

        Events that have left the memory of this process come from the journal, one frame per call, so that a long
        scan leaves the caller time for keep-alives. Raises PositionTooOld when the next events have been archived, and
        EpochEnded when the position is one that a failover or a restore lost.
        """
        if self.epoch != self.hub.epoch:
            await self._change_epoch()
        if self.is_behind and self.position < self.hub.ring.start:
            return await self._take_from_journal(render)
        return self.take_from_memory(render)

    def take_from_memory(self, render: Render[T]) -> T | None:
        """Like `take`, without the database: raises PositionTooOld when the next events have left the memory."""
        if self.epoch != self.hub.epoch:
            raise PositionTooOld
        while self.is_behind:
            frame, self.position = self._render_frame(render)
            if frame is not None:
                return frame
        return None

    async def _change_epoch(self) -> None:
        """Continues in the current epoch if the position means the same there; otherwise raises EpochEnded."""
        epoch = self.hub.epoch
        await check_shared(self.hub, self.epoch, self.position)
        self.epoch = epoch

    async def _take_from_journal(self, render: Render[T]) -> T | None:
        last = min(self.position + EVENTS_PER_FRAME, self.hub.ring.last)
        events = await self.hub.reader.run(reader.read_retained_events, self.epoch, self.position, last)
        self.position = last
        chosen = [event for event in events if self._matches(event)]
        return render(chosen, self.epoch) if chosen else None

    def _render_frame(self, render: Render[T]) -> tuple[T | None, int]:
        """Returns the next frame and its last position. Subscriptions at the same position and filter share it."""
        key = (self.position, self.event_filter, render)
        frames = self.hub.frames
        if key not in frames:
            events = self.hub.ring.read_after(self.position, EVENTS_PER_FRAME)
            last = events[-1].position if len(events) == EVENTS_PER_FRAME else self.hub.ring.last
            chosen = [event for event in events if self._matches(event)]
            frames[key] = (render(chosen, self.epoch) if chosen else None, last)
        frame: tuple[Any, int] = frames[key]
        return frame

    def _matches(self, event: StreamEvent) -> bool:
        return all(read(event) in values for read, values in self.conditions)
