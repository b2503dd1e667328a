"""Events as they happen (server-sent events): reading the lines, and going on where a lost connection stood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .records import Event, Positioned, record
from .refusals import Garbled, Unreachable
from .retries import Heard, Patience, is_passing, retry_after, said_no


class TooOld(Unreachable):
    """The position is so old that the stream no longer reaches back to it: read the state anew and start from now."""


class Lines:
    """Bytes into lines as server-sent events have them: a text may hold what other readers of lines break at."""

    def __init__(self) -> None:
        self.rest = b""

    def add(self, data: bytes) -> Iterator[str]:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode(errors="replace")


class Stream:
    """What is known of a stream between two lines, and between two connections."""

    def __init__(self, after: int | None, params: Mapping[str, Any], patience: Patience) -> None:
        self.position, self.params, self.patience = after, dict(params), patience
        self.failures = 0
        self.data: list[str] = []
        self.name = ""
        # How far the stream is, also where it has nothing to tell.
        self.reached: int | None = None

    def query(self) -> dict[str, Any]:
        return self.params if self.position is None else {**self.params, "after": self.position}

    def hear(self, line: str) -> Positioned | None:
        """An event, when this line is the end of one. What was seen before is left out."""
        if line:
            self._note(line)
            return None
        data, name, seen = "\n".join(self.data), self.name, self.position
        self.data, self.name = [], ""
        if name == "resnapshot":
            raise TooOld(f"events after position {seen} are no longer streamed")
        self.failures = 0
        self.position, self.reached = self.reached or seen, None
        told = _positioned(data) if data else None
        return None if told is None or (seen is not None and told.position <= seen) else told

    def _note(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self.data.append(value)
        elif field == "event":
            self.name = value
        elif field == "id" and value.isdecimal():
            self.reached = max(int(value), self.position or 0)

    def lost(self, heard: Heard | None) -> float:
        """The connection ended: how long to wait before the next. Half an event is forgotten, it comes again."""
        self.data, self.name, self.reached = [], "", None
        if heard is not None and not is_passing(heard):
            raise said_no(heard)
        self.failures += 1
        pause = max(self.patience.pause(self.failures), (heard is not None and retry_after(heard)) or 0.0)
        if self.patience.total is not None and self.failures * pause > self.patience.total:
            raise Unreachable(f"the stream of events was lost {self.failures} times in a row")
        return pause


def _positioned(data: str) -> Positioned | None:
    """Only what has a position is an event; a greeting is not."""
    try:
        told = msgspec.json.decode(data)
    except msgspec.DecodeError:
        raise Garbled("the stream of events holds something that is not JSON") from None
    if not isinstance(told, dict) or "event" not in told:
        return None
    if not isinstance(told.get("position"), int):
        raise Garbled("the stream of events holds one that has no position")
    return Positioned(position=told["position"], event=record(Event, told["event"]))
