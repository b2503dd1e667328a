"""Reads the database for all clients of a process, in one thread over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import structlog
from django.db import DatabaseError, InterfaceError, connection, connections

from ... import journal
from ...journal import archive
from ...journal.commit_order import EVENTS, POSITIONS
from ...journal.position import Numbering
from .ring import OtherEpoch, PositionTooOld, StreamEvent

T = TypeVar("T")

log = structlog.get_logger(__name__)

NUMBERING = Numbering._meta.db_table
_STREAMED = ", ".join(f"'{kind}'" for kind in journal.ENTITY_KINDS)
NO_DATABASE = (DatabaseError, InterfaceError)


class Reader:
    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="live-reader")

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Calls the function in the reader's thread."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, _call, function, args)

    def close(self) -> None:
        self.thread.submit(connections.close_all)
        self.thread.shutdown(wait=False)


def _call(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    try:
        return function(*args)
    except NO_DATABASE:
        connections.close_all()  # the next call connects again
        raise


def read_events(epoch: int, after: int, last: int) -> list[StreamEvent]:
    """Returns the events of machines after one position, up to and including another.

    Raises OtherEpoch if these positions belong to another epoch by now.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT p.position, e.body, e.hash, (SELECT epoch FROM {NUMBERING}) "
            f"FROM {POSITIONS} AS p JOIN {EVENTS} AS e ON e.event_id = p.event_id "
            f"WHERE p.position > %s AND p.position <= %s AND p.kind IN ({_STREAMED}) "
            f"ORDER BY p.position",
            [after, last],
        )
        rows = cursor.fetchall()
    if rows and rows[0][3] != epoch:
        raise OtherEpoch
    return list(_serialize_readable(rows))


def read_retained_events(epoch: int, after: int, last: int) -> list[StreamEvent]:
    """Like `read_events`, but raises PositionTooOld if some of these events have been archived."""
    events = read_events(epoch, after, last)
    # Checked after reading, because retention may have deleted the events in between.
    check_retained(after)
    return events


def check_retained(after: int) -> None:
    """Raises PositionTooOld if the events after a position have been archived."""
    if after < archive.get_last_archived_position():
        raise PositionTooOld


def _serialize_readable(rows: list[tuple[int, str, str, int]]) -> Iterator[StreamEvent]:
    """Skips damaged events, which would otherwise block all later ones; `manage.py integrity` reports them."""
    for position, body, hash_, _epoch in rows:
        try:
            yield StreamEvent.serialize(position, journal.parse_event(body, hash_))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("live_event_unreadable", position=position, error=f"{type(error).__name__}: {error}")
