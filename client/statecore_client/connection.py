"""The base of both clients: URL, token, timeouts, and the HTTP request for a call."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec

from . import tracing
from .call import Call
from .records import Page
from .refusals import Unsendable
from .retries import RetryPolicy, Send
from .stream import EventSource
from .transfer import Content
from .version import __version__

T = TypeVar("T")

BASE = "api/v1/"
CONNECT_SECONDS = 5.0
# The server sends a keep-alive every 15 s; a stream that is silent for this long is reconnected.
SILENCE_SECONDS = 60.0
VISIBLE = re.compile(r"[!-~]{1,200}")


class InvalidUrl(ValueError):
    """The URL does not name a server."""


def normalize_url(url: str) -> str:
    """Returns the URL with one slash at the end; raises InvalidUrl if it is not an HTTP URL of a server."""
    if not url.isprintable() or not _is_server_url(url):
        raise InvalidUrl(f"{url!r} is not a URL such as https://statecore.example")
    return url.rstrip("/") + "/"


def _is_server_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_whole = parts.hostname and parts.port != 0
    except ValueError:  # unbalanced brackets, or an invalid port
        return False
    return parts.scheme in ("http", "https") and bool(is_whole) and not parts.query and not parts.fragment


def format_user_agent() -> str:
    return f"statecore-client/{__version__}"


def _check_key(key: object) -> str:
    """Returns an idempotency key that fits into a header, or raises Unsendable."""
    if not (isinstance(key, str) and VISIBLE.fullmatch(key)):
        raise Unsendable("a request_id must be 1 to 200 visible ASCII characters")
    return key


def _encode_body(body: Any) -> bytes | None:
    if body is None:
        return None
    text: bytes = msgspec.json.encode(body)
    # msgspec writes NaN and infinity as null, which would send another value.
    if b"null" in text and not _is_finite(body):
        raise Unsendable("a number that is not finite cannot be sent as JSON")
    return text


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    return not isinstance(value, list | tuple) or all(map(_is_finite, value))


class Connection(ABC):
    def __init__(
        self,
        url: str,
        token: str,
        *,
        retry_policy: RetryPolicy | None = None,
        timeout: float = 30.0,
        transport: Any = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.url, self.timeout = normalize_url(url), timeout
        self.retry_policy = retry_policy or RetryPolicy()
        self.http: Any = self._open_http(
            base_url=f"{self.url}{BASE}",
            headers={"Authorization": f"Bearer {token}", "User-Agent": format_user_agent(), **(headers or {})},
            transport=transport,
        )

    @abstractmethod
    def _open_http(self, **settings: Any) -> Any:
        """Returns the synchronous or the asynchronous client of httpx."""

    @abstractmethod
    def _send_content(self, content: Content) -> Any:
        """Returns the pieces of the content, for the synchronous or the asynchronous client of httpx."""

    def build_request(self, step: Send) -> dict[str, Any]:
        call = step.call
        headers = {"Accept": "application/json", **tracing.inject()}
        if step.key is not None:
            headers["Idempotency-Key"] = _check_key(step.key)
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        if call.content is not None:
            headers |= {"Content-Type": call.content.content_type, "Content-Length": str(call.content.size)}
            call.content.rewind()
        return {
            "method": call.method,
            "url": call.path,
            "params": call.params,
            "headers": headers,
            "content": self._send_content(call.content) if call.content else _encode_body(call.body),
            "timeout": self._build_timeout(self.timeout + call.extra_seconds),
        }

    def build_stream_request(self, stream: EventSource[Any]) -> dict[str, Any]:
        return {
            "method": "GET",
            "url": stream.path,
            "params": stream.build_query(),
            "headers": {"Accept": "text/event-stream"},
            "timeout": self._build_timeout(SILENCE_SECONDS),
        }

    def _build_timeout(self, seconds: float) -> httpx.Timeout:
        return httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))

    def build_next_call(self, call: Call[Page[T]], page: Page[T]) -> Call[Page[T]] | None:
        """Returns the call for the next page, None after the last one.

        Only the query of `page.next` is used: behind a proxy the server may report another host.
        """
        if page.next is None:
            return None
        params: dict[str, list[str]] = {}
        for name, value in parse_qsl(urlsplit(page.next).query, keep_blank_values=True):
            params.setdefault(name, []).append(value)
        return replace(call, params=params)
