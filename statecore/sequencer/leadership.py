"""One leader at a time: who holds the lock numbers the events, and losing the connection is losing the lock."""

from __future__ import annotations

import os

from django.conf import settings
from django.db import connection

from ..kernel import file_lock

ADVISORY_KEY = 0x57A7EC02E  # any number nobody else uses


class Leadership:
    """On PostgreSQL a lock of the very session that does the work, on SQLite one of a file."""

    def __init__(self) -> None:
        self.session: object = None
        self.file: int | None = None

    @property
    def is_held(self) -> bool:
        if connection.vendor == "postgresql":
            return self.session is not None and self.session is connection.connection
        return self.file is not None

    def take(self) -> bool:
        return self._take_advisory_lock() if connection.vendor == "postgresql" else self._take_file_lock()

    def _take_advisory_lock(self) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [ADVISORY_KEY])
            taken = bool(cursor.fetchone()[0])
        self.session = connection.connection if taken else None
        return taken

    def _take_file_lock(self) -> bool:
        settings.STATECORE_HOME.mkdir(parents=True, exist_ok=True)
        try:
            self.file = file_lock.take(settings.STATECORE_HOME / "sequencer.lock")
        except BlockingIOError:
            return False
        return True

    def give_up(self) -> None:
        """Close what holds the lock; closing cannot fail half-way as unlocking could."""
        if connection.vendor == "postgresql" and connection.connection is not None:
            # The session itself: a pool would keep it open, and the lock with it.
            connection.connection.close()
        self.session = None
        connection.close()
        if self.file is not None:
            os.close(self.file)
            self.file = None


def is_led() -> bool:
    """Whether somebody leads, asked by whoever does not want to."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_HELD, [ADVISORY_KEY >> 32, ADVISORY_KEY & 0xFFFFFFFF])
            return bool(cursor.fetchone())
    try:
        with file_lock.held(settings.STATECORE_HOME / "sequencer.lock"):
            return False
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False


_HELD = """
    SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = %s AND objid = %s
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
