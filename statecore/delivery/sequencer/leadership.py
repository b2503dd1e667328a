"""Only the holder of the leader lock numbers events. A leader that loses its connection also loses the lock."""

from __future__ import annotations

import os

from django.conf import settings
from django.db import connection

from ...storage import files

ADVISORY_KEY = 0x57A7EC02E  # arbitrary, but used by nothing else
_SELECT_LOCK = """
    SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = %s AND objid = %s
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Leadership:
    """On PostgreSQL an advisory lock of the session that does the work, on SQLite a file lock."""

    def __init__(self) -> None:
        self.session: object = None
        self.file: int | None = None

    @property
    def is_held(self) -> bool:
        if connection.vendor == "postgresql":
            return self.session is not None and self.session is connection.connection
        return self.file is not None

    def acquire(self) -> bool:
        """Tries to become the leader, without waiting; returns False if another process leads."""
        return self._acquire_advisory_lock() if connection.vendor == "postgresql" else self._acquire_file_lock()

    def _acquire_advisory_lock(self) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [ADVISORY_KEY])
            is_acquired = bool(cursor.fetchone()[0])
        self.session = connection.connection if is_acquired else None
        return is_acquired

    def _acquire_file_lock(self) -> bool:
        settings.STATECORE_HOME.mkdir(parents=True, exist_ok=True)
        try:
            self.file = files.take_lock(settings.STATECORE_HOME / "sequencer.lock")
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Closes the session or file that holds the lock: unlike unlocking, closing cannot fail half-way."""
        if connection.vendor == "postgresql" and connection.connection is not None:
            # Close the session itself: a connection pool would keep it open, and the lock with it.
            connection.connection.close()
        self.session = None
        connection.close()
        if self.file is not None:
            os.close(self.file)
            self.file = None


def has_leader() -> bool:
    """Whether any process holds the leader lock."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_SELECT_LOCK, [ADVISORY_KEY >> 32, ADVISORY_KEY & 0xFFFFFFFF])
            return bool(cursor.fetchone())
    try:
        with files.hold_lock(settings.STATECORE_HOME / "sequencer.lock"):
            return False
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
