"""The latches in the database: triggers let a write through only while the one who may make it holds its latch open.

The door's is for states and for what is added, the other for what is retired from the journal. SQLite asks a function
that only connections of this application have; PostgreSQL reads a setting that is turned on and off again with the
write. Neither is open outside a single write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


class Latch(NamedTuple):
    function: str
    setting: str


DOOR = Latch("statecore_door_is_open", "statecore.door")
RETIRING = Latch("statecore_is_retiring", "statecore.retiring")
SETTING = DOOR.setting


def _add_functions(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "sqlite":
        for latch in (DOOR, RETIRING):
            connection.connection.create_function(latch.function, 0, partial(_is_open, connection, latch))


def _is_open(connection: BaseDatabaseWrapper, latch: Latch) -> int:
    return int(getattr(connection, latch.function, False))


connection_created.connect(_add_functions)


@contextmanager
def opened(connection: BaseDatabaseWrapper, latch: Latch = DOOR) -> Iterator[None]:
    """Hold the latch open while a write runs. The hot statement on PostgreSQL does it by itself (`door.statements`)."""
    _set(connection, latch, is_open=True)
    try:
        yield
    except BaseException:
        # A transaction that failed on PostgreSQL takes its settings with it, and would refuse to be told anything.
        setattr(connection, latch.function, False)
        raise
    _set(connection, latch, is_open=False)


def _set(connection: BaseDatabaseWrapper, latch: Latch, *, is_open: bool) -> None:
    setattr(connection, latch.function, is_open)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT set_config('{latch.setting}', %s, true)", ["open" if is_open else "shut"])
