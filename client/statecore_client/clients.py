"""The synchronous and the asynchronous client. Threads may share one synchronous client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Self, TypeVar

from .agent_calls import AgentCalls
from .artifact_calls import ArtifactCalls
from .call import Call
from .channel import Awaiting, Blocking, iterate, run
from .operator_calls import OperatorCalls
from .records import Page
from .stream import EventSource
from .stream_calls import StreamCalls

T = TypeVar("T")


class AllCalls(AgentCalls, ArtifactCalls, OperatorCalls, StreamCalls):
    pass


class Client(AllCalls):
    """Performs each call in the thread of the caller."""

    channel: Blocking
    channel_type = Blocking

    def perform(self, call: Call[T]) -> T:
        return run(self.perform_steps(call))

    def iterate_pages(self, call: Call[Page[T]]) -> Iterator[T]:
        return iterate(self.read_pages(call))

    def follow(self, stream: EventSource[T]) -> Iterator[T]:
        return iterate(self.read_stream(stream))

    def close(self) -> None:
        self.channel.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(AllCalls):
    """The same calls, to be awaited."""

    channel: Awaiting
    channel_type = Awaiting

    def perform(self, call: Call[T]) -> Awaitable[T]:
        return self.perform_steps(call)

    def iterate_pages(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        return self.read_pages(call)

    def follow(self, stream: EventSource[T]) -> AsyncIterator[T]:
        return self.read_stream(stream)

    async def close(self) -> None:
        await self.channel.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
