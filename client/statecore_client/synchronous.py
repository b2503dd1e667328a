"""The synchronous client: performs each call in the thread of the caller. Threads may share one client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Self, TypeVar

import httpx

from .call import Call, build_path
from .calls import Calls
from .records import LogLine, Page, PositionedEvent
from .retries import AttemptResult, Pause, Send, plan_attempts
from .stream import EventSource, LineSplitter, LogStream, OnEpoch, OnOutage, Stream
from .transfer import Content

T = TypeVar("T")


class Client(Calls):
    def perform(self, call: Call[T]) -> T:
        attempts = plan_attempts(call, self.retry_policy)
        step = next(attempts)
        try:
            while True:
                step = attempts.send(self._perform_step(step))
        except StopIteration as end:
            result: T = end.value
            return result

    def _perform_step(self, step: Send | Pause) -> AttemptResult | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        download = step.call.download
        try:
            with self.http.stream(**self.build_request(step)) as response:
                if download is None or not response.is_success:
                    response.read()
                else:
                    download.restart()
                    for data in response.iter_bytes():
                        download.write(data)
        except httpx.RequestError as error:
            return error
        result: httpx.Response = response
        return result

    def iterate_pages(self, call: Call[Page[T]]) -> Iterator[T]:
        following: Call[Page[T]] | None = call
        while following is not None:
            page = self.perform(following)
            yield from page.results
            following = self.build_next_call(following, page)

    def stream_events(
        self,
        after: int | str | None = None,
        *,
        give_up_after: float | None = None,
        on_outage: OnOutage | None = None,
        on_epoch: OnEpoch | None = None,
        **params: Any,
    ) -> Iterator[PositionedEvent]:
        """Yields events in order as they happen, and reconnects without gap or repeat when the connection is lost.

        An outage may last for any time, or raises `Unreachable` after `give_up_after` seconds. Each failed attempt to
        reconnect is passed to `on_outage`; without it, an outage is logged. Raises `PositionTooOld` if the events after
        `after` have been archived, and `EpochEnded` if a failover or a restore lost them; with `on_epoch` the stream
        calls it and continues from now on. The other arguments are filters: `entity_type`, `entity`, `run`, `actor`,
        `kind`, `severity`, `from_state`, `to_state`, `event_name`.
        """
        stream = Stream(after, params, self.retry_policy, give_up_after, on_outage, on_epoch)
        return self._read_stream(stream)

    def follow_log(
        self,
        task_id: str,
        *,
        after: int = 0,
        attempt: int | None = None,
        give_up_after: float | None = None,
        on_outage: OnOutage | None = None,
    ) -> Iterator[LogLine]:
        """Yields the lines of a task's log after a number, as they are written, until the attempt has ended.

        Without `attempt`, the lines of all attempts until the current one has ended, or the next one if the task waits
        for it. Reconnects as `stream_events` does, without gap or repeat.
        """
        path = build_path("tasks", task_id, "logs")
        stream = LogStream(path, after, attempt, self.retry_policy, give_up_after, on_outage)
        return self._read_stream(stream)

    def _read_stream(self, stream: EventSource[T]) -> Iterator[T]:
        while not stream.has_ended:
            result: AttemptResult | None = None
            try:
                with self.http.stream(**self.build_stream_request(stream)) as response:
                    if response.is_success:
                        lines = LineSplitter()
                        for data in response.iter_bytes():
                            for line in lines.add(data):
                                if (found := stream.take_line(line)) is not None:
                                    yield found
                    else:
                        response.read()
                        result = response
            except httpx.RequestError as error:
                result = error
            if not stream.has_ended:
                time.sleep(stream.plan_reconnect(result))

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send_content(self, content: Content) -> Iterator[bytes]:
        while data := content.read():
            yield data

    def _open_http(self, **settings: Any) -> httpx.Client:
        return httpx.Client(**settings)
