"""One who migrates at a time: of machines that start together each does, and whoever is second finds it done."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection

from statecore.kernel import file_lock

ADVISORY_KEY = 0x57A7EC02F  # any number nobody else uses


@contextmanager
def alone() -> Iterator[None]:
    """However long the one before takes: a migration may take hours."""
    if connection.vendor == "postgresql":
        with _lock_of_the_session():
            yield
    else:
        with file_lock.held(settings.STATECORE_HOME / "migrate.lock", wait=math.inf):
            yield


@contextmanager
def _lock_of_the_session() -> Iterator[None]:
    # Asked for again and again: a statement that waits would hold up an index that the other builds beside it.
    while not _is_so("pg_try_advisory_lock"):
        time.sleep(file_lock.TICK)
    try:
        yield
    finally:
        _is_so("pg_advisory_unlock")


def _is_so(function: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [ADVISORY_KEY])
        return bool(cursor.fetchone()[0])
