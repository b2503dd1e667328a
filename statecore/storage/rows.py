"""Reading rows: one persistent cursor per connection, binary results on PostgreSQL, and instances built from rows."""

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


def persistent_cursor(connection: BaseDatabaseWrapper) -> Any:
    """Returns the connection's persistent cursor; the caller must fetch all rows before the next use.

    Returns a new cursor on SQLite, where an open cursor keeps a closed connection and its lock alive, and while
    queries are logged, because a logging cursor would continue to log afterwards.
    """
    cursor = getattr(connection, "persistent_cursor", None)
    if cursor is not None and cursor.cursor.connection is connection.connection and not connection.queries_logged:
        return cursor
    cursor = new_cursor(connection)
    if connection.vendor == "postgresql" and not connection.queries_logged:
        connection.persistent_cursor = cursor  # type: ignore[attr-defined]
    return cursor


def ready_cursor() -> Any:
    """Returns the persistent cursor of a checked connection, for a single statement outside a transaction."""
    connection = connections[DEFAULT_DB_ALIAS]
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
