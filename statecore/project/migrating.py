"""One who migrates at a time: of machines that start together each does, and whoever is second finds it done."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import structlog
from django.conf import settings
from django.db import Error, connection

from statecore.kernel import file_lock
from statecore.project.refusal import Refused

log = structlog.get_logger(__name__)

ADVISORY_KEY = 0x57A7EC02F  # any number nobody else uses
LetGo = Callable[[], object]


@contextmanager
def alone(is_over: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """However long the one before takes, for a migration may take hours; unless it is over for whoever waits."""
    take = _lock_of_the_session if connection.vendor == "postgresql" else _lock_of_a_file
    let_go = take()
    if let_go is None:
        log.info("waiting", why="another process migrates this database")
    # Asked for again and again: a statement that waits would hold up an index that the other builds beside it.
    while let_go is None:
        if is_over():
            raise Refused("stopped while another process migrated the database.")
        time.sleep(file_lock.TICK)
        let_go = take()
    try:
        yield
    finally:
        let_go()


def _lock_of_the_session() -> LetGo | None:
    return _unlock if _ask("pg_try_advisory_lock") else None


def _unlock() -> None:
    # Where the connection was lost the lock is gone with it, and what went wrong is worth more than that.
    with suppress(Error):
        _ask("pg_advisory_unlock")


def _ask(function: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [ADVISORY_KEY])
        return bool(cursor.fetchone()[0])


def _lock_of_a_file() -> LetGo | None:
    try:
        file = file_lock.take(settings.STATECORE_HOME / "migrate.lock")
    except BlockingIOError:
        return None
    return lambda: os.close(file)
