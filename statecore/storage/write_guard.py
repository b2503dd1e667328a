"""The write guards: database triggers reject a write unless the code that may make it has enabled its guard.

One guard protects states and appends to the journal, the other deletions by retention. On SQLite the triggers call a
function that only connections of this application have; on PostgreSQL they read a setting. A guard is enabled only
for a single write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


class WriteGuard(NamedTuple):
    """The SQLite function and the PostgreSQL setting that the triggers evaluate."""

    function: str
    setting: str


# The names are part of installed triggers: a release that renames them cannot write before it has migrated.
TRANSITIONS = WriteGuard("statecore_door_is_open", "statecore.door")
RETENTION = WriteGuard("statecore_is_archiving", "statecore.archiving")
SETTING = TRANSITIONS.setting


def _add_functions(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "sqlite":
        for guard in (TRANSITIONS, RETENTION):
            connection.connection.create_function(guard.function, 0, partial(_allows_writes, connection, guard))


def _allows_writes(connection: BaseDatabaseWrapper, guard: WriteGuard) -> int:
    return int(getattr(connection, guard.function, False))


connection_created.connect(_add_functions)


@contextmanager
def allow_writes(connection: BaseDatabaseWrapper, guard: WriteGuard = TRANSITIONS) -> Iterator[None]:
    """Allows guarded writes inside the block. `transitions.statements` does so within its PostgreSQL statements."""
    setattr(connection, guard.function, True)
    if connection.vendor == "postgresql":
        _set_config(connection, guard, "open")
    try:
        yield
    finally:
        setattr(connection, guard.function, False)
    # Not after an error: a failed transaction accepts no further statements, and its rollback resets the setting.
    if connection.vendor == "postgresql":
        _set_config(connection, guard, "shut")


def _set_config(connection: BaseDatabaseWrapper, guard: WriteGuard, value: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT set_config('{guard.setting}', %s, true)", [value])
