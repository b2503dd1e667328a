"""The calls that are followed: the events of the journal and the log of a task, as they are written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from .call import Described, build_path
from .connection import Connection
from .records import LogLine, PositionedEvent
from .stream import EventSource, LogStream, OnEpoch, OnOutage, Stream

if TYPE_CHECKING:
    from .clients import AsyncClient, Client

P = ParamSpec("P")
T = TypeVar("T")


class followed_call(Described[P, EventSource[T]]):  # noqa: N801 - used as a decorator
    """A method that yields what the server sends, as long as it does."""

    action = "follow"

    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        return self.bind(client)


class StreamCalls(Connection):
    @followed_call
    def stream_events(
        self,
        /,
        after: int | str | None = None,
        *,
        give_up_after: float | None = None,
        on_outage: OnOutage | None = None,
        on_epoch: OnEpoch | None = None,
        **params: Any,
    ) -> EventSource[PositionedEvent]:
        """Yields events in order as they happen, and reconnects without gap or repeat when the connection is lost.

        An outage may last for any time, or raises `Unreachable` after `give_up_after` seconds. Each failed attempt to
        reconnect is passed to `on_outage`; without it, an outage is logged. Raises `PositionTooOld` if the events after
        `after` have been archived, and `EpochEnded` if a failover or a restore lost them; with `on_epoch` the stream
        calls it and continues from now on. The other arguments are filters: `entity_type`, `entity`, `run`, `actor`,
        `kind`, `severity`, `from_state`, `to_state`, `event_name`.
        """
        return Stream(after, params, self.retry_policy, give_up_after, on_outage, on_epoch)

    @followed_call
    def follow_log(
        self,
        task_id: str,
        *,
        after: int = 0,
        attempt: int | None = None,
        give_up_after: float | None = None,
        on_outage: OnOutage | None = None,
    ) -> EventSource[LogLine]:
        """Yields the lines of a task's log after a number, as they are written, until the attempt has ended.

        Without `attempt`, the lines of all attempts until the current one has ended, or the next one if the task waits
        for it. Reconnects as `stream_events` does, without gap or repeat.
        """
        path = build_path("tasks", task_id, "logs")
        return LogStream(path, after, attempt, self.retry_policy, give_up_after, on_outage)
