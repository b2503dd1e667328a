"""Decides when a call is retried. The clients send the requests and wait."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import msgspec

from .call import Call, DecodedResponse
from .refusals import UnexpectedResponse, Unreachable, build_refusal

T = TypeVar("T")

TOO_MANY, UNAVAILABLE = 429, 503
# Errors in the request itself: sending it again does not help.
BAD_REQUESTS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a client retries a call that may still succeed.

    The pauses between attempts double from `first` to `longest` seconds, with jitter. After `total` seconds the client
    gives up; with None it never does.
    """

    first: float = 0.1
    longest: float = 10.0
    total: float | None = 60.0

    def compute_pause(self, failures: int) -> float:
        # The exponent is bounded because an outage may last for days.
        longest: float = min(self.longest, self.first * 2 ** min(failures - 1, 30))
        return random.uniform(longest / 2, longest)  # noqa: S311 - jitter, not a secret


@dataclass(frozen=True, slots=True)
class Send:
    call: Call[Any]
    key: str | None


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


# Invalid UTF-8 and very deep nesting raise other errors than invalid JSON.
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# A request either gets a response, whatever its status, or fails on the way.
AttemptResult = httpx.Response | httpx.RequestError
Steps = Generator[Send | Pause, Any, T]


def plan_attempts(call: Call[T], retry_policy: RetryPolicy) -> Steps[T]:
    """Yields each step of a call: send the request, or pause. The client performs the step and sends the result back.

    Returns the value of the call, or raises `StatecoreError`. All attempts share one idempotency key, so the call takes
    effect at most once.
    """
    given = call.request_id
    key = (uuid.uuid4().hex if given is None else given) if call.keyed else None
    until = None if retry_policy.total is None else time.monotonic() + retry_policy.total
    failures = 0
    while True:
        result: AttemptResult = yield Send(call, key)
        if not is_temporary(result):
            return call.read(_decode(result, is_download=call.download is not None))
        failures += 1
        pause = max(retry_policy.compute_pause(failures), read_retry_after(result) or 0.0)
        if until is not None and time.monotonic() + pause > until:
            raise _build_final_error(result, failures)
        yield Pause(pause)


def is_temporary(result: AttemptResult) -> bool:
    """Whether another attempt may succeed. An open breaker is not temporary: the caller decides how long to wait."""
    if isinstance(result, Exception):
        return not isinstance(result, BAD_REQUESTS)
    if result.status_code == UNAVAILABLE:
        return read_problem(result).get("code") != "breaker_open"
    return result.status_code == TOO_MANY or result.status_code >= 500


def read_retry_after(result: AttemptResult) -> float | None:
    if isinstance(result, Exception):
        return None
    try:
        return max(0.0, float(result.headers.get("Retry-After", "")))
    except ValueError:
        return None


def read_problem(response: httpx.Response) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(response.content)
    except NOT_JSON:
        return {}
    return body if isinstance(body, dict) else {}


def to_exception(result: AttemptResult) -> Exception:
    if isinstance(result, Exception):
        return Unreachable(f"{type(result).__name__}: {result}")
    return build_refusal(result.status_code, read_problem(result), read_retry_after(result))


def _decode(result: AttemptResult, *, is_download: bool) -> DecodedResponse:
    """Returns the decoded body, or the headers of a download."""
    if isinstance(result, Exception) or not result.is_success:
        raise to_exception(result)
    if is_download:
        return DecodedResponse(result.headers)
    if result.headers.get("Content-Type", "").startswith("text/plain"):
        return DecodedResponse(result.text)
    try:
        json = msgspec.json.decode(result.content) if result.content else None
    except NOT_JSON:
        raise UnexpectedResponse(f"the response of {result.request.url} is not JSON") from None
    return DecodedResponse(json, replayed=result.headers.get("Idempotent-Replayed") == "true")


def _build_final_error(result: AttemptResult, failures: int) -> Exception:
    times = "once" if failures == 1 else f"{failures} times"
    if isinstance(result, Exception):
        return Unreachable(f"{_get_server(result)}: tried {times}: {type(result).__name__}: {result}")
    if result.status_code == TOO_MANY:
        return to_exception(result)
    why = f"the server responds with status {result.status_code}"
    if detail := read_problem(result).get("detail"):
        why += f": {detail}"
    return Unreachable(f"{_get_server(result)}: tried {times}: {why}")


def _get_server(result: AttemptResult) -> str:
    url = result.request.url
    return f"{url.scheme}://{url.netloc.decode()}"
