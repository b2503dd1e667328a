"""The asynchronous client: the same calls as the synchronous client, to be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Self, TypeVar

import httpx

from .call import Call, build_path
from .calls import Calls
from .records import LogLine, Page, PositionedEvent
from .retries import AttemptResult, Pause, Send, plan_attempts
from .stream import EventSource, LineSplitter, LogStream, OnEpoch, OnOutage, Stream
from .transfer import Content

T = TypeVar("T")


class AsyncClient(Calls):
    async def perform(self, call: Call[T]) -> T:
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
            await asyncio.sleep(step.seconds)
            return None
        download = step.call.download
        try:
            async with self.http.stream(**self.build_request(step)) as response:
                if download is None or not response.is_success:
                    await response.aread()
                else:
                    download.restart()
                    async for data in response.aiter_bytes():
                        await asyncio.to_thread(download.write, data)
        except httpx.RequestError as error:
            return error
        result: httpx.Response = response
        return result

    async def iterate_pages(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        following: Call[Page[T]] | None = call
        while following is not None:
            page = await self.perform(following)
            for each in page.results:
                yield each
            following = self.build_next_call(following, page)

    async def stream_events(
        self,
        after: int | str | None = None,
        *,
        give_up_after: float | None = None,
        on_outage: OnOutage | None = None,
        on_epoch: OnEpoch | None = None,
        **params: Any,
    ) -> AsyncIterator[PositionedEvent]:
        """Yields events in order as they happen, and reconnects without gap or repeat when the connection is lost.

        An outage may last for any time, or raises `Unreachable` after `give_up_after` seconds. Each failed attempt to
        reconnect is passed to `on_outage`; without it, an outage is logged. Raises `PositionTooOld` if the events after
        `after` have been archived, and `EpochEnded` if a failover or a restore lost them; with `on_epoch` the stream
        calls it and continues from now on. The other arguments are filters: `entity_type`, `entity`, `run`, `actor`,
        `kind`, `severity`, `from_state`, `to_state`, `event_name`.
        """
        stream = Stream(after, params, self.retry_policy, give_up_after, on_outage, on_epoch)
        async for event in self._read_stream(stream):
            yield event

    async def follow_log(
        self,
        task_id: str,
        *,
        after: int = 0,
        attempt: int | None = None,
        give_up_after: float | None = None,
        on_outage: OnOutage | None = None,
    ) -> AsyncIterator[LogLine]:
        """Yields the lines of a task's log after a number, as they are written, until the attempt has ended.

        Without `attempt`, the lines of all attempts until the current one has ended, or the next one if the task waits
        for it. Reconnects as `stream_events` does, without gap or repeat.
        """
        path = build_path("tasks", task_id, "logs")
        stream = LogStream(path, after, attempt, self.retry_policy, give_up_after, on_outage)
        async for line in self._read_stream(stream):
            yield line

    async def _read_stream(self, stream: EventSource[T]) -> AsyncIterator[T]:
        while not stream.has_ended:
            result: AttemptResult | None = None
            try:
                async with self.http.stream(**self.build_stream_request(stream)) as response:
                    if response.is_success:
                        lines = LineSplitter()
                        async for data in response.aiter_bytes():
                            for line in lines.add(data):
                                if (found := stream.take_line(line)) is not None:
                                    yield found
                    else:
                        await response.aread()
                        result = response
            except httpx.RequestError as error:
                result = error
            if not stream.has_ended:
                await asyncio.sleep(stream.plan_reconnect(result))

    async def close(self) -> None:
        await self.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send_content(self, content: Content) -> AsyncIterator[bytes]:
        while data := await asyncio.to_thread(content.read):
            yield data

    def _open_http(self, **settings: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(**settings)
