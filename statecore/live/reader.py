"""The one thread of a process that reads the database for all who watch, over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import structlog
from django.db import DatabaseError, InterfaceError, connection, connections

from .. import journal
from ..records import position as positions
from ..records import retirement
from ..records.commit_order import EVENTS, POSITIONS
from .ring import Told

T = TypeVar("T")

log = structlog.get_logger(__name__)

NO_DATABASE = (DatabaseError, InterfaceError)


class Reader:
    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="live-reader")

    async def ask(self, question: Callable[..., T], *given: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.thread, _answered, question, given)

    def close(self) -> None:
        self.thread.submit(connections.close_all)
        self.thread.shutdown(wait=False)


def _answered(question: Callable[..., T], given: tuple[Any, ...]) -> T:
    try:
        return question(*given)
    except NO_DATABASE:
        connections.close_all()  # the next question finds out whether the database is back
        raise


def head() -> int:
    return positions.head()


def horizon() -> int:
    return retirement.horizon()


def between(after: int, upto: int) -> list[Told]:
    """The events after one position and up to another that has been given."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT p.position, e.body, e.hash FROM {POSITIONS} AS p JOIN {EVENTS} AS e ON e.event_id = p.event_id "
            f"WHERE p.position > %s AND p.position <= %s ORDER BY p.position",
            [after, upto],
        )
        return list(_readable(cursor.fetchall()))


def _readable(rows: list[tuple[int, str, str]]) -> Iterator[Told]:
    """One damaged event must not keep all that follow it from everybody; integrity says what is wrong with it."""
    for position, body, hash_ in rows:
        try:
            yield Told.of(position, journal.read(body, hash_))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("live_event_cannot_be_read", position=position, error=f"{type(error).__name__}: {error}")
