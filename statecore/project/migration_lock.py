"""A lock that lets one process migrate at a time: hosts that start together all try, and the others find it done."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import structlog
from django.conf import settings
from django.db import Error, connection

from statecore.project.refusal import Refused
from statecore.storage import files

log = structlog.get_logger(__name__)

ADVISORY_KEY = 0x57A7EC02F  # an arbitrary number
Release = Callable[[], object]


@contextmanager
def hold(is_stopping: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Waits for the lock without a limit, because a migration may take hours; refused once `is_stopping` is true."""
    acquire = _acquire_advisory_lock if connection.vendor == "postgresql" else _acquire_file_lock
    release = acquire()
    if release is None:
        log.info("waiting", why="another process migrates this database")
    # Polled: a statement that waits for the lock would block an index that the other process builds concurrently.
    while release is None:
        if is_stopping():
            raise Refused("stopped while another process migrated the database.")
        time.sleep(files.RETRY_SECONDS)
        release = acquire()
    try:
        yield
    finally:
        release()


def _acquire_advisory_lock() -> Release | None:
    return _release_advisory_lock if _call("pg_try_advisory_lock") else None


def _release_advisory_lock() -> None:
    # A lost connection has released the lock, and its first error is the one to report.
    with suppress(Error):
        _call("pg_advisory_unlock")


def _call(function: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [ADVISORY_KEY])
        return bool(cursor.fetchone()[0])


def _acquire_file_lock() -> Release | None:
    try:
        file = files.take_lock(settings.STATECORE_HOME / "migrate.lock")
    except BlockingIOError:
        return None
    return lambda: os.close(file)
