"""One who follows the journal: a position and what is wanted. However slow it is, it keeps nothing waiting for it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from .hub import Hub
from .ring import Told

PORTION = 500  # in one frame
T = TypeVar("T")
Render = Callable[[list[Told]], T]


class Wanted(NamedTuple):
    """Which events are wanted: for each name, the values it may have; an empty set is no condition."""

    entity_type: frozenset[str] = frozenset()
    entity: frozenset[str] = frozenset()
    run: frozenset[str] = frozenset()
    actor: frozenset[str] = frozenset()
    kind: frozenset[str] = frozenset()
    severity: frozenset[str] = frozenset()
    to_state: frozenset[str] = frozenset()

    @property
    def conditions(self) -> list[tuple[Callable[[Told], str], frozenset[str]]]:
        named = zip(self._fields, self, strict=True)
        return [(attrgetter(name), values) for name, values in named if values]


class Following:
    def __init__(self, hub: Hub, position: int, wanted: Wanted) -> None:
        self.hub, self.position, self.wanted = hub, position, wanted
        self.conditions = wanted.conditions

    @property
    def is_behind(self) -> bool:
        return self.hub.ring.last > self.position

    def take(self, render: Render[T]) -> T | None:
        """The next events, written by `render`; None when none of the new ones is wanted. Too slow is TooOld."""
        while self.is_behind:
            frame, self.position = self._frame(render)
            if frame is not None:
                return frame
        return None

    def _frame(self, render: Render[T]) -> tuple[T | None, int]:
        """Those who stand at the same place and want the same get the same bytes."""
        key = (self.position, self.wanted, render)
        frames = self.hub.frames
        if key not in frames:
            events = self.hub.ring.after(self.position, PORTION)
            last = events[-1].position if len(events) == PORTION else self.hub.ring.last
            chosen = [event for event in events if self._wants(event)]
            frames[key] = (render(chosen) if chosen else None, last)
        frame: tuple[Any, int] = frames[key]
        return frame

    def _wants(self, event: Told) -> bool:
        return all(read(event) in values for read, values in self.conditions)
