"""A time limit for queries, so that a slow search ends with a message instead of a hanging page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection, transaction

SECONDS = 3.0
STEPS = 20_000  # SQLite virtual machine instructions between two checks of the clock


class TimedOut(Exception):
    """The query did not finish within its time limit."""


@contextmanager
def time_limit(seconds: float | None = None) -> Iterator[None]:
    """Raises TimedOut when a query in the block takes longer."""
    limit = _on_postgres if connection.vendor == "postgresql" else _on_sqlite
    try:
        with limit(SECONDS if seconds is None else seconds):
            yield
    except OperationalError as error:
        if "statement timeout" in str(error) or "interrupted" in str(error):
            raise TimedOut from error
        raise


@contextmanager
def _on_postgres(seconds: float) -> Iterator[None]:
    with transaction.atomic(), connection.cursor() as cursor:
        # Local to the transaction.
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [f"{int(seconds * 1000)}ms"])
        yield


@contextmanager
def _on_sqlite(seconds: float) -> Iterator[None]:
    connection.ensure_connection()
    raw, deadline = connection.connection, time.monotonic() + seconds
    raw.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
    try:
        yield
    finally:
        raw.set_progress_handler(None, STEPS)
