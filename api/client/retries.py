"""How a call is tried again: the decisions alone, without a network and without a clock of their own."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import msgspec

from .call import Answer, Call
from .refusals import Garbled, Unreachable, refusal

T = TypeVar("T")

TOO_MANY, UNAVAILABLE = 429, 503
# What is wrong with the request itself stays wrong however often it is sent.
OURS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


@dataclass(frozen=True, slots=True)
class Patience:
    """Pauses double from `first` to `longest` seconds, each shortened by chance; `total` ends it, None never."""

    first: float = 0.1
    longest: float = 10.0
    total: float | None = 60.0

    def pause(self, failures: int) -> float:
        # The exponent is bounded: a server may be away for days.
        longest: float = min(self.longest, self.first * 2 ** min(failures - 1, 30))
        return random.uniform(longest / 2, longest)  # noqa: S311 - jitter, not a secret


@dataclass(frozen=True, slots=True)
class Send:
    call: Call[Any]
    key: str | None


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


# A text may be no text, and what is nested may have no end.
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
Heard = httpx.Response | httpx.RequestError
Steps = Generator[Send | Pause, Any, T]


def converse(call: Call[T], patience: Patience) -> Steps[T]:
    """Yields what is to be done next, is told what came of it, and returns what the call is for.

    The key is made before the first try and kept over all of them: whatever was heard, was heard once.
    """
    given = call.request_id
    key = (uuid.uuid4().hex if given is None else given) if call.keyed else None
    until = None if patience.total is None else time.monotonic() + patience.total
    failures = 0
    while True:
        heard: Heard = yield Send(call, key)
        if not is_passing(heard):
            return call.read(_answer(heard))
        failures += 1
        pause = max(patience.pause(failures), retry_after(heard) or 0.0)
        if until is not None and time.monotonic() + pause > until:
            raise _given_up(heard, failures)
        yield Pause(pause)


def is_passing(heard: Heard) -> bool:
    """Whether another try may fare better."""
    if isinstance(heard, Exception):
        return not isinstance(heard, OURS)
    if heard.status_code == UNAVAILABLE:
        return problem(heard).get("code") != "breaker_open"
    return heard.status_code == TOO_MANY or heard.status_code >= 500


def retry_after(heard: Heard) -> float | None:
    if isinstance(heard, Exception):
        return None
    try:
        return max(0.0, float(heard.headers.get("Retry-After", "")))
    except ValueError:
        return None


def problem(response: httpx.Response) -> dict[str, Any]:
    try:
        told = msgspec.json.decode(response.content)
    except NOT_JSON:
        return {}
    return told if isinstance(told, dict) else {}


def said_no(heard: Heard) -> Exception:
    if isinstance(heard, Exception):
        return Unreachable(f"{type(heard).__name__}: {heard}")
    return refusal(heard.status_code, problem(heard), retry_after(heard))


def _answer(heard: Heard) -> Answer:
    if isinstance(heard, Exception) or not heard.is_success:
        raise said_no(heard)
    try:
        json = msgspec.json.decode(heard.content) if heard.content else None
    except NOT_JSON:
        raise Garbled(f"{heard.request.url} did not answer with JSON") from None
    return Answer(json, replayed=heard.headers.get("Idempotent-Replayed") == "true")


def _given_up(heard: Heard, failures: int) -> Exception:
    times = "once" if failures == 1 else f"{failures} times"
    if isinstance(heard, Exception):
        return Unreachable(f"tried {times}: {type(heard).__name__}: {heard}")
    if heard.status_code == TOO_MANY:
        return said_no(heard)
    return Unreachable(f"tried {times}: the server answers {heard.status_code}")
