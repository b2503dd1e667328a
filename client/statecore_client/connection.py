"""The base of both clients: URL, token and timeouts, and how calls, lists and streams are performed."""

from __future__ import annotations

import math
import re
from abc import ABC
from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec

from . import tracing
from .call import Call
from .channel import Channel
from .records import Page
from .refusals import Unsendable
from .retries import AttemptResult, Pause, RetryPolicy, Send, plan_attempts
from .stream import EventSource, LineSplitter
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
    text: bytes = msgspec.json.encode(body, enc_hook=_to_builtins)
    # msgspec writes NaN and infinity as null, which would send another value.
    if b"null" in text and not _is_finite(body):
        raise Unsendable("a number that is not finite cannot be sent as JSON")
    return text


def _to_builtins(value: Any) -> Any:
    """Returns mappings and collections of any kind as JSON has them; iterators would be empty at the next attempt."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Collection):
        return list(value)
    raise Unsendable(f"{type(value).__name__} cannot be sent as JSON")


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    return not isinstance(value, list | tuple) or all(map(_is_finite, value))


class Connection(ABC):
    channel_type: type[Channel]

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
        self.channel: Any = self.channel_type(
            base_url=f"{self.url}{BASE}",
            headers={"Authorization": f"Bearer {token}", "User-Agent": format_user_agent(), **(headers or {})},
            transport=transport,
        )

    async def perform_steps(self, call: Call[T]) -> T:
        """Sends the request, again if that may help, and returns the result of the call."""
        attempts = plan_attempts(call, self.retry_policy)
        step = next(attempts)
        try:
            while True:
                step = attempts.send(await self._perform_step(step))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _perform_step(self, step: Send | Pause) -> AttemptResult | None:
        if isinstance(step, Pause):
            await self.channel.pause(step.seconds)
            return None
        download = step.call.download
        try:
            async with self.channel.send(**self._build_request(step)) as response:
                if download is None or not response.is_success:
                    await self.channel.read(response)
                else:
                    download.restart()
                    async for data in self.channel.read_pieces(response):
                        await self.channel.write(download, data)
        except httpx.RequestError as error:
            return error
        result: httpx.Response = response
        return result

    async def read_pages(self, call: Call[Page[T]]) -> AsyncGenerator[T, None]:
        following: Call[Page[T]] | None = call
        while following is not None:
            page = await self.perform_steps(following)
            for each in page.results:
                yield each
            following = _build_next_call(following, page)

    async def read_stream(self, stream: EventSource[T]) -> AsyncGenerator[T, None]:
        """Yields what the server sends, and reconnects when the connection is lost."""
        while not stream.has_ended:
            result: AttemptResult | None = None
            try:
                async with self.channel.send(**self._build_stream_request(stream)) as response:
                    if response.is_success:
                        lines = LineSplitter()
                        async for data in self.channel.read_pieces(response):
                            for line in lines.add(data):
                                if (found := stream.take_line(line)) is not None:
                                    yield found
                    else:
                        await self.channel.read(response)
                        result = response
            except httpx.RequestError as error:
                result = error
            if not stream.has_ended:
                await self.channel.pause(stream.plan_reconnect(result))

    def _build_request(self, step: Send) -> dict[str, Any]:
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
            "content": self.channel.send_pieces(call.content) if call.content else _encode_body(call.body),
            "timeout": self._build_timeout(self.timeout + call.extra_seconds),
        }

    def _build_stream_request(self, stream: EventSource[Any]) -> dict[str, Any]:
        return {
            "method": "GET",
            "url": stream.path,
            "params": stream.build_query(),
            "headers": {"Accept": "text/event-stream"},
            "timeout": self._build_timeout(SILENCE_SECONDS),
        }

    def _build_timeout(self, seconds: float) -> httpx.Timeout:
        return httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))


def _build_next_call(call: Call[Page[T]], page: Page[T]) -> Call[Page[T]] | None:
    """Returns the call for the next page, None after the last one.

    Only the query of `page.next` is used: behind a proxy the server may report another host.
    """
    if page.next is None:
        return None
    params: dict[str, list[str]] = {}
    for name, value in parse_qsl(urlsplit(page.next).query, keep_blank_values=True):
        params.setdefault(name, []).append(value)
    return replace(call, params=params)
