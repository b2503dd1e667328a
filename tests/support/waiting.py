"""Waiting for something real to become true."""

import time
from collections.abc import Callable

from django.db import connection


def somebody_waits() -> bool:
    """For a lock, on PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchall())


def until(condition: Callable[[], object], timeout: float = 60.0) -> None:
    """Return as soon as the condition holds; fail when it never does."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{condition} did not become true in {timeout} seconds")
        time.sleep(0.02)
