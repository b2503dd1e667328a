"""Waits with a deadline: for a condition, a lock or a line of output."""

import select
import socket
import time
from collections.abc import Callable
from typing import IO, AnyStr

from django.db import connection


def count_lock_waiters() -> int:
    """Returns the number of PostgreSQL clients of this test's database that wait for a lock."""
    with connection.cursor() as cursor:
        # Inside a transaction the statistics are a snapshot: without this, later clients stay invisible.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_locks JOIN pg_stat_activity AS client USING (pid) "
            "WHERE NOT granted AND client.datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def has_lock_waiters() -> bool:
    return count_lock_waiters() > 0


def until(condition: Callable[[], object], timeout: float = 60.0) -> None:
    """Returns as soon as the condition holds; fails after the timeout."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{condition} did not become true in {timeout} seconds")
        time.sleep(0.02)


def is_listening(port: int | str) -> bool:
    """Returns whether a process accepts connections; this costs far less than a request that fails."""
    try:
        socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def read_line(stream: IO[AnyStr], timeout: float = 60.0) -> AnyStr:
    """Returns the next line of a process's output, empty at its end; fails when none comes in time."""
    assert select.select([stream], [], [], timeout)[0], f"no output for {timeout} seconds"
    return stream.readline()
