"""Reading rows: persistent cursors of a connection, binary results on PostgreSQL, and instances built from rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import methodcaller
from typing import Any, TypeVar

import orjson
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import DateTimeField, Field, JSONField, Model
from django.db.models.base import ModelState

from . import database_clock

M = TypeVar("M", bound=Model)

BINARY = 1  # psycopg.pq.Format.BINARY; psycopg is not installed if only SQLite is used
MAX_STATEMENTS = 100  # as many as psycopg prepares
MAX_KEPT_ROWS = 100


# Binary results


POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)  # rows written together share timestamps
def _read_timestamp(data: bytes) -> datetime:
    return POSTGRES_EPOCH + timedelta(microseconds=int.from_bytes(data, "big", signed=True))


def _use_fast_loaders(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Registers loaders for binary results; text results keep Django's loaders."""
    if connection.vendor != "postgresql":
        return
    from psycopg.adapt import Buffer, Loader
    from psycopg.pq import Format

    class JsonbLoader(Loader):
        format = Format.BINARY

        def load(self, data: Buffer) -> Any:
            return orjson.loads(bytes(data)[1:])  # after the version byte of jsonb

    class TimestampLoader(Loader):
        """psycopg's loader determines the session's time zone for each value; here it is always UTC."""

        format = Format.BINARY

        def load(self, data: Buffer) -> datetime:
            return _read_timestamp(bytes(data))

    connection.connection.adapters.register_loader("jsonb", JsonbLoader)
    connection.connection.adapters.register_loader("timestamptz", TimestampLoader)


connection_created.connect(_use_fast_loaders)


# Cursors


class StatementCursors:
    """The persistent cursors of a connection to PostgreSQL, one for each statement.

    A cursor that repeats a statement keeps the driver's converters of its parameters and results. To build them anew
    takes a tenth of the client's time for a transition.
    """

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection, self.driver = connection, connection.connection
        self.cursors: dict[str, tuple[str, Any]] = {}
        self.statement = ""
        self.cursor: Any = None

    def execute(self, statement: str, params: Any = None) -> None:
        # The statement as it was executed before: the driver compares identities.
        known = self.cursors.get(statement) or self._add(statement)
        self.statement, self.cursor = known
        self.cursor.execute(self.statement, params)

    def _add(self, statement: str) -> tuple[str, Any]:
        if len(self.cursors) >= MAX_STATEMENTS:
            self.cursors.clear()
        added = self.cursors[statement] = statement, new_cursor(self.connection)
        return added

    def fetchone(self) -> Any:
        return self.cursor.fetchone()

    def fetchall(self) -> list[Any]:
        found: list[Any] = self.cursor.fetchall()
        if len(found) > MAX_KEPT_ROWS:
            self.cursors.pop(self.statement, None)  # a cursor holds its last result
        return found

    @property
    def rowcount(self) -> int:
        return int(self.cursor.rowcount)


def persistent_cursor(connection: BaseDatabaseWrapper) -> Any:
    """Returns the connection's persistent cursors; the caller must fetch all rows before the next use.

    Returns a new cursor on SQLite, where an open cursor keeps a closed connection and its lock alive, and while
    queries are logged, because a logging cursor would continue to log afterwards.
    """
    if connection.vendor != "postgresql" or connection.queries_logged:
        return new_cursor(connection)
    connection.ensure_connection()
    cursors = getattr(connection, "persistent_cursors", None)
    if cursors is None or cursors.driver is not connection.connection:
        cursors = StatementCursors(connection)
        connection.persistent_cursors = cursors  # type: ignore[attr-defined]
    return cursors


def ready_cursor(connection: BaseDatabaseWrapper | None = None) -> Any:
    """Returns the persistent cursor of a checked connection, for a single statement outside a transaction.

    Looking up the connection takes as long as checking it, so a caller that has it gives it.
    """
    connection = connection or connections[DEFAULT_DB_ALIAS]
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    database_clock.follow(connection)
    return persistent_cursor(connection)


def new_cursor(connection: BaseDatabaseWrapper) -> Any:
    """Returns a cursor with binary results on PostgreSQL: Django's loader of timestamps in text is slow."""
    cursor: Any = connection.cursor()
    if connection.vendor == "postgresql":
        cursor.cursor.format = BINARY
    return cursor


# Instances


class RowReader:
    """Builds instances of a model from rows of some of its columns.

    Skips __init__: defaults, signals and descriptors would cost more than reading the row.
    """

    def __init__(self, model: type[Model], fields: Sequence[Field[Any, Any]], vendor: str) -> None:
        self.model, self.names = model, [field.attname for field in fields]
        # PostgreSQL's binary format needs no conversion.
        self.converters = [] if vendor == "postgresql" else list(_sqlite_converters(fields))

    def build(self, row: Iterable[Any]) -> Any:
        instance = self.model.__new__(self.model)
        instance.__dict__.update(zip(self.names, row, strict=True))
        for name, convert in self.converters:
            if (value := instance.__dict__[name]) is not None:
                instance.__dict__[name] = convert(value)
        instance._state = ModelState()
        instance._state.adding, instance._state.db = False, DEFAULT_DB_ALIAS
        return instance


def _sqlite_converters(fields: Iterable[Field[Any, Any]]) -> Iterable[tuple[str, Callable[[Any], Any]]]:
    """Django's own converters take several calls for each value."""
    for field in fields:
        if isinstance(field, JSONField):
            yield field.attname, orjson.loads
        elif isinstance(field, DateTimeField):
            yield field.attname, methodcaller("replace", tzinfo=UTC)


def copy_instance(instance: M) -> M:
    """Copies an instance as it is now, without its descriptors."""
    copy = object.__new__(type(instance))
    copy.__dict__.update(instance.__dict__)
    return copy
