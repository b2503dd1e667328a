"""The asynchronous client: the same calls, each to be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Self, TypeVar

import httpx

from .call import Call
from .calls import Calls
from .records import Page, Positioned
from .retries import Heard, Pause, Send, converse
from .stream import Lines, Stream

T = TypeVar("T")


class AsyncClient(Calls):
    async def perform(self, call: Call[T]) -> T:
        talk = converse(call, self.patience)
        step = next(talk)
        try:
            while True:
                step = talk.send(await self._do(step))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _do(self, step: Send | Pause) -> Heard | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            response: httpx.Response = await self.http.request(**self.request(step))
        except httpx.RequestError as error:
            return error
        return response

    async def follow(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        following: Call[Page[T]] | None = call
        while following is not None:
            page = await self.perform(following)
            for each in page.results:
                yield each
            following = self.after(following, page)

    async def stream(self, after: int | None = None, **params: Any) -> AsyncIterator[Positioned]:
        """Events in order, as they happen, without gap or repeat over lost connections; it ends when it is closed."""
        stream = Stream(after, params, self.patience)
        while True:
            heard: Heard | None = None
            try:
                async with self.http.stream(**self.listening(stream)) as response:
                    if response.is_success:
                        lines = Lines()
                        async for data in response.aiter_bytes():
                            for line in lines.add(data):
                                if event := stream.hear(line):
                                    yield event
                    else:
                        await response.aread()
                        heard = response
            except httpx.RequestError as error:
                heard = error
            await asyncio.sleep(stream.lost(heard))

    async def close(self) -> None:
        await self.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _opened(self, **settings: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(**settings)
