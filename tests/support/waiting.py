"""Waiting for something real to become true, or to be said."""

import select
import time
from collections.abc import Callable
from typing import IO, AnyStr

from django.db import connection


def how_many_wait() -> int:
    """For a lock, on PostgreSQL, in this database: others of the same server have tests of their own."""
    with connection.cursor() as cursor:
        # A transaction is told of the clients there were when it first asked; who has come since would never be seen.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_locks JOIN pg_stat_activity AS client USING (pid) "
            "WHERE NOT granted AND client.datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def somebody_waits() -> bool:
    return how_many_wait() > 0


def until(condition: Callable[[], object], timeout: float = 60.0) -> None:
    """Return as soon as the condition holds; fail when it never does."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{condition} did not become true in {timeout} seconds")
        time.sleep(0.02)


def line_of(stream: IO[AnyStr], timeout: float = 60.0) -> AnyStr:
    """The next line of a process that says one at a time; empty when it has ended, and a failure when it is silent."""
    assert select.select([stream], [], [], timeout)[0], f"nothing was said for {timeout} seconds"
    return stream.readline()
