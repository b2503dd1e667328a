"""A question that is given up after a while: a page that says so is better than one that never comes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection, transaction

SECONDS = 3.0
STEPS = 20_000  # of SQLite's machine, between two looks at the clock


class TimedOut(Exception):
    """The database had not found it in time."""


@contextmanager
def in_time(seconds: float | None = None) -> Iterator[None]:
    ask = _on_postgres if connection.vendor == "postgresql" else _on_sqlite
    try:
        with ask(SECONDS if seconds is None else seconds):
            yield
    except OperationalError as error:
        if "statement timeout" in str(error) or "interrupted" in str(error):
            raise TimedOut from error
        raise


@contextmanager
def _on_postgres(seconds: float) -> Iterator[None]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [f"{int(seconds * 1000)}ms"])
        yield  # the setting ends with the transaction


@contextmanager
def _on_sqlite(seconds: float) -> Iterator[None]:
    connection.ensure_connection()
    raw, deadline = connection.connection, time.monotonic() + seconds
    raw.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
    try:
        yield
    finally:
        raw.set_progress_handler(None, STEPS)
