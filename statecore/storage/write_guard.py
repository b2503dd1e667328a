"""The write guards of SQLite: its triggers refuse a write unless the code that may make it has enabled its guard.

One guard protects states and appends to the journal, the other deletions by retention. The triggers call a function
that only connections of this application have. A guard is enabled only for a single write. PostgreSQL needs none: its
triggers compare rows and events.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

# Functions that the triggers call. A release that renames them cannot write before it has migrated.
TRANSITIONS = "statecore_door_is_open"
RETENTION = "statecore_is_archiving"


def _add_functions(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "sqlite":
        for guard in (TRANSITIONS, RETENTION):
            connection.connection.create_function(guard, 0, partial(_allows_writes, connection, guard))


def _allows_writes(connection: BaseDatabaseWrapper, guard: str) -> int:
    return int(getattr(connection, guard, False))


connection_created.connect(_add_functions)


@contextmanager
def allow_writes(connection: BaseDatabaseWrapper, guard: str = TRANSITIONS) -> Iterator[None]:
    """Allows guarded writes inside the block. Without effect on PostgreSQL."""
    setattr(connection, guard, True)
    try:
        yield
    finally:
        setattr(connection, guard, False)
