"""How a client waits: in the thread of the caller, or in an event loop.

The client is written once, as coroutines. Those of `Blocking` never suspend: `run` and `iterate` complete them in the
thread of the caller.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import httpx

from .transfer import Content, Download

T = TypeVar("T")


class Channel(ABC):
    """Sends requests, and waits for responses and for time to pass."""

    @abstractmethod
    def __init__(self, **settings: Any) -> None: ...

    @abstractmethod
    async def pause(self, seconds: float) -> None: ...

    @abstractmethod
    def send(self, **request: Any) -> AbstractAsyncContextManager[httpx.Response]:
        """Opens the response; its body is read by `read` or `read_pieces`."""

    @abstractmethod
    async def read(self, response: httpx.Response) -> None: ...

    @abstractmethod
    def read_pieces(self, response: httpx.Response) -> AsyncIterator[bytes]: ...

    @abstractmethod
    async def write(self, download: Download, data: bytes) -> None: ...

    @abstractmethod
    def send_pieces(self, content: Content) -> Any:
        """Returns the pieces of a content, as httpx takes them."""


class Blocking(Channel):
    def __init__(self, **settings: Any) -> None:
        self.http = httpx.Client(**settings)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    @asynccontextmanager
    async def send(self, **request: Any) -> AsyncIterator[httpx.Response]:
        with self.http.stream(**request) as response:
            yield response

    async def read(self, response: httpx.Response) -> None:
        response.read()

    async def read_pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        for data in response.iter_bytes():
            yield data

    async def write(self, download: Download, data: bytes) -> None:
        download.write(data)

    def send_pieces(self, content: Content) -> Iterator[bytes]:
        while data := content.read():
            yield data


class Awaiting(Channel):
    def __init__(self, **settings: Any) -> None:
        self.http = httpx.AsyncClient(**settings)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def send(self, **request: Any) -> AbstractAsyncContextManager[httpx.Response]:
        return self.http.stream(**request)

    async def read(self, response: httpx.Response) -> None:
        await response.aread()

    def read_pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        return response.aiter_bytes()

    async def write(self, download: Download, data: bytes) -> None:
        await asyncio.to_thread(download.write, data)

    async def send_pieces(self, content: Content) -> AsyncIterator[bytes]:
        while data := await asyncio.to_thread(content.read):
            yield data


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Completes a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a coroutine of the synchronous client was suspended")


def iterate(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yields the items of an asynchronous generator that never suspends, and closes it at the end."""
    try:
        while True:
            try:
                yield run(items.__anext__())
            except StopAsyncIteration:
                return
    finally:
        run(items.aclose())
