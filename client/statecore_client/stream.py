"""Event streams (server-sent events): parses the lines, and resumes after a lost connection."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from .records import Event, PositionedEvent, to_record
from .refusals import UnexpectedResponse, Unreachable
from .retries import AttemptResult, RetryPolicy, is_temporary, read_retry_after, to_exception

log = logging.getLogger("statecore.client")


class PositionTooOld(Unreachable):
    """The server cannot resume after this position: read the current state, then stream from now on.

    The next events have been archived, or the position is of another journal, for example from before a restore.
    """


class EpochEnded(PositionTooOld):
    """A failover or a restore lost the position of the stream, and other events now have its number.

    Positions up to `kept` mean the same as before: discard what is known of later ones, and read the current state.
    """

    def __init__(self, epoch: int, kept: int) -> None:
        super().__init__(f"the journal began epoch {epoch}: events after position {kept} were lost")
        self.epoch, self.kept = epoch, kept


@dataclass(frozen=True, slots=True)
class Outage:
    """A failed attempt to resume a stream: the number of the attempt, and how long the stream has been down."""

    attempt: int
    seconds: float
    error: str


OnOutage = Callable[[Outage], None]
OnEpoch = Callable[[EpochEnded], None]
CURSOR = re.compile("(?:([0-9]{1,9})-)?([0-9]{1,18})", re.ASCII)


class LineSplitter:
    """Splits bytes into lines at LF or CRLF, never at other Unicode line breaks."""

    def __init__(self) -> None:
        self.rest = b""

    def add(self, data: bytes) -> Iterator[str]:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode(errors="replace")


class Stream:
    """What a client remembers of an event stream: the position it has reached, and how long it has been disconnected.

    Without `give_up_after` it reconnects until the caller stops reading. Each attempt that fails is passed to
    `on_outage`; without one, an outage is logged when it begins and when it ends. With `on_epoch`, the stream continues
    after the end of an epoch, from now on; without it, EpochEnded is raised.
    """

    def __init__(
        self,
        after: int | str | None,
        params: Mapping[str, Any],
        retry_policy: RetryPolicy,
        give_up_after: float | None = None,
        on_outage: OnOutage | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> None:
        self.params, self.retry_policy = dict(params), retry_policy
        self.give_up_after, self.on_outage, self.on_epoch = give_up_after, on_outage, on_epoch
        # The epoch is None until the server has named it.
        self.position: int | None = None
        self.epoch: int | None = None
        if after is not None:
            self.epoch, self.position = _parse_cursor(str(after))
        self.failures = 0
        self.reports = 0
        self.lost_at = 0.0
        # The fields of the message that is being read. A keep-alive has a position and no data.
        self.data: list[str] = []
        self.name = ""
        self.reached: tuple[int | None, int] | None = None

    def build_query(self) -> dict[str, Any]:
        if self.position is None:
            return self.params
        after = self.position if self.epoch is None else f"{self.epoch}-{self.position}"
        return {**self.params, "after": after}

    def take_line(self, line: str) -> PositionedEvent | None:
        """Parses one line. Returns an event if the line completes one that the caller does not have yet."""
        if line:
            self._parse_field(line)
            return None
        data, name, seen = "\n".join(self.data), self.name, self.position
        self.data, self.name = [], ""
        if name == "resnapshot":
            self._start_over(data)
            return None
        self._end_outage()
        if self.reached is not None:
            self.epoch, self.position, self.reached = self.reached[0], max(self.reached[1], seen or 0), None
        event = _read_event(data, self.epoch) if data else None
        return None if event is None or (seen is not None and event.position <= seen) else event

    def _start_over(self, data: str) -> None:
        """Continues from the new position after the end of an epoch, if the caller handles it; otherwise raises."""
        message = _decode(data)
        if message.get("reason") != "epoch":
            raise PositionTooOld(
                f"the stream cannot resume after position {self.position}: the next events are not available"
            )
        ended = EpochEnded(int(message.get("epoch", 0)), int(message.get("kept", 0)))
        log.warning("event stream: %s", ended)
        if self.on_epoch is None:
            raise ended
        if self.reached is not None:
            (self.epoch, self.position), self.reached = self.reached, None
        self._end_outage()
        self.on_epoch(ended)

    def _parse_field(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self.data.append(value)
        elif field == "event":
            self.name = value
        elif field == "id" and CURSOR.fullmatch(value):
            self.reached = _parse_cursor(value)

    def plan_reconnect(self, result: AttemptResult | None) -> float:
        """Returns the seconds to wait before the next attempt; `result` of the last one is None if it was closed.

        Raises the refusal if another attempt would not help, and `Unreachable` after `give_up_after` seconds. A partly
        read event is dropped, because the server sends it again.
        """
        self.data, self.name, self.reached = [], "", None
        if result is not None and not is_temporary(result):
            raise to_exception(result)
        if self.failures == 0:
            self.lost_at = time.monotonic()
        self.failures += 1
        retry_after = None if result is None else read_retry_after(result)
        pause = max(self.retry_policy.compute_pause(self.failures), retry_after or 0.0)
        seconds = time.monotonic() - self.lost_at
        if self.give_up_after is not None and seconds + pause > self.give_up_after:
            raise Unreachable(f"the event stream was down for {seconds:.1f} s: {_describe(result)}")
        # A stream that is closed for the first time is routine: a proxy or a restart did it. It is no outage yet.
        if result is not None or self.failures > 1:
            self._report(Outage(self.reports + 1, seconds, _describe(result)))
        return pause

    def _report(self, outage: Outage) -> None:
        self.reports = outage.attempt
        if self.on_outage is not None:
            self.on_outage(outage)
        elif outage.attempt == 1:
            log.warning("event stream lost, reconnecting: %s", outage.error)

    def _end_outage(self) -> None:
        if self.reports and self.on_outage is None:
            log.info("event stream resumed after %.1f s", time.monotonic() - self.lost_at)
        self.failures = self.reports = 0


def _describe(result: AttemptResult | None) -> str:
    if result is None:
        return "the server closed the connection"
    if isinstance(result, Exception):
        return f"{type(result).__name__}: {result}"
    return f"the server responds with status {result.status_code}"


def _parse_cursor(text: str) -> tuple[int | None, int]:
    """Returns the epoch and the position of `EPOCH-POSITION` or of a position. Raises ValueError."""
    found = CURSOR.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is neither a position nor EPOCH-POSITION")
    return (int(found[1]) if found[1] else None), int(found[2])


def _decode(data: str) -> dict[str, Any]:
    try:
        message = msgspec.json.decode(data)
    except msgspec.DecodeError:
        raise UnexpectedResponse("the event stream contains something that is not JSON") from None
    return message if isinstance(message, dict) else {}


def _read_event(data: str, epoch: int | None) -> PositionedEvent | None:
    """Returns the event of a message; None for other messages, such as the first one of a stream."""
    message = _decode(data)
    if "event" not in message:
        return None
    if not isinstance(message.get("position"), int):
        raise UnexpectedResponse("the event stream contains an event without a position")
    return PositionedEvent(position=message["position"], event=to_record(Event, message["event"]), epoch=epoch)
