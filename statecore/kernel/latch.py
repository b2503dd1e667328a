"""The latch in the database: triggers let a state change through only while the door holds it open.

SQLite asks a function that only connections of this application have; PostgreSQL reads a setting that the door's
own statement turns on and off again. Neither is open outside the door's single write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

FUNCTION = "statecore_door_is_open"
SETTING = "statecore.door"


def _add_function(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "sqlite":
        connection.connection.create_function(FUNCTION, 0, lambda: int(getattr(connection, "door_is_open", False)))


connection_created.connect(_add_function)


@contextmanager
def opened(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Hold the latch open while a write runs. The hot statement on PostgreSQL does it by itself (`door.statements`)."""
    _set(connection, is_open=True)
    try:
        yield
    except BaseException:
        # A transaction that failed on PostgreSQL takes its settings with it, and would refuse to be told anything.
        connection.door_is_open = False  # type: ignore[attr-defined]
        raise
    _set(connection, is_open=False)


def _set(connection: BaseDatabaseWrapper, *, is_open: bool) -> None:
    connection.door_is_open = is_open  # type: ignore[attr-defined]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT set_config('{SETTING}', %s, true)", ["open" if is_open else "shut"])
