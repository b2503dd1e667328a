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
    """Hold the latch open on SQLite; on PostgreSQL the statement itself does it (see `door.statements`)."""
    connection.door_is_open = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        connection.door_is_open = False  # type: ignore[attr-defined]
