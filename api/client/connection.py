"""What both clients share: the address, the token, time-outs, and how a description becomes a request."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec

from .call import Call
from .records import Page
from .refusals import Unsendable
from .retries import Patience, Send
from .stream import Stream

T = TypeVar("T")

BASE = "api/v1/"
CONNECT_SECONDS = 5.0
# A stream that says nothing for so long, not even that it lives, is taken for dead.
SILENCE_SECONDS = 60.0
VISIBLE = re.compile(r"[!-~]{1,200}")


class BadAddress(ValueError):
    """Not the address of a server."""


def server_address(url: str) -> str:
    """The address, ready to be added to; refused when no server can be there."""
    if not url.isprintable() or not _is_address(url):
        raise BadAddress(f"{url!r} is not an address such as https://statecore.example")
    return url.rstrip("/") + "/"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_whole = parts.hostname and parts.port != 0
    except ValueError:  # brackets that do not match, a port that is none
        return False
    return parts.scheme in ("http", "https") and bool(is_whole) and not parts.query and not parts.fragment


def user_agent() -> str:
    try:
        return f"statecore-client/{version('statecore')}"
    except PackageNotFoundError:  # used from a folder, not installed
        return "statecore-client"


def _visible(key: object) -> str:
    """It goes into a header."""
    if not (isinstance(key, str) and VISIBLE.fullmatch(key)):
        raise Unsendable("a request_id must be 1 to 200 visible ASCII characters")
    return key


def _written(body: Any) -> bytes:
    text: bytes = msgspec.json.encode(body)
    # For NaN and infinity JSON has no word, and null would be another one.
    if b"null" in text and not _is_finite(body):
        raise Unsendable("a number that is not finite cannot be sent")
    return text


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    return not isinstance(value, list | tuple) or all(map(_is_finite, value))


class Connection:
    def __init__(
        self,
        url: str,
        token: str,
        *,
        patience: Patience | None = None,
        timeout: float = 30.0,
        transport: Any = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.url, self.timeout = server_address(url), timeout
        self.patience = patience or Patience()
        self.http: Any = self._opened(
            base_url=f"{self.url}{BASE}",
            headers={"Authorization": f"Bearer {token}", "User-Agent": user_agent(), **(headers or {})},
            transport=transport,
        )

    def _opened(self, **settings: Any) -> Any:
        raise NotImplementedError

    def request(self, step: Send) -> dict[str, Any]:
        call = step.call
        headers = {"Accept": "application/json", **call.headers}
        if step.key is not None:
            headers["Idempotency-Key"] = _visible(step.key)
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        return {
            "method": call.method,
            "url": call.path,
            "params": call.params,
            "headers": headers,
            "content": None if call.body is None else _written(call.body),
            "timeout": self._patient(self.timeout + call.extra_seconds),
        }

    def listening(self, stream: Stream) -> dict[str, Any]:
        return {
            "method": "GET",
            "url": "events/",
            "params": stream.query(),
            "headers": {"Accept": "text/event-stream"},
            "timeout": self._patient(SILENCE_SECONDS),
        }

    def _patient(self, seconds: float) -> httpx.Timeout:
        return httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))

    def after(self, call: Call[Page[T]], page: Page[T]) -> Call[Page[T]] | None:
        """The call for the next page: at the same place, whatever host the server believes to be."""
        if page.next is None:
            return None
        params: dict[str, list[str]] = {}
        for name, value in parse_qsl(urlsplit(page.next).query, keep_blank_values=True):
            params.setdefault(name, []).append(value)
        return replace(call, params=params)
