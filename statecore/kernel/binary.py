"""PostgreSQL's binary result format, where the text one would cost more than the query."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import orjson
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

BINARY = 1  # psycopg.pq.Format.BINARY; psycopg is not installed where only SQLite is used


def ask_for_binary(cursor: Any, connection: BaseDatabaseWrapper) -> None:
    """Django's loader of text timestamps is slow, and bytes in text form are twice as long."""
    if connection.vendor == "postgresql":
        cursor.cursor.format = BINARY


POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)  # rows that were written together share their moments
def _moment(data: bytes) -> datetime:
    return POSTGRES_EPOCH + timedelta(microseconds=int.from_bytes(data, "big", signed=True))


def _use_fast_loaders(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """For binary results only: text results are read the way Django has arranged it."""
    if connection.vendor != "postgresql":
        return
    from psycopg.adapt import Buffer, Loader
    from psycopg.pq import Format

    class JsonbLoader(Loader):
        format = Format.BINARY

        def load(self, data: Buffer) -> Any:
            return orjson.loads(bytes(data)[1:])  # after the version byte of jsonb

    class MomentLoader(Loader):
        """psycopg's own works out the session's time zone for each value; ours is always UTC."""

        format = Format.BINARY

        def load(self, data: Buffer) -> datetime:
            return _moment(bytes(data))

    connection.connection.adapters.register_loader("jsonb", JsonbLoader)
    connection.connection.adapters.register_loader("timestamptz", MomentLoader)


connection_created.connect(_use_fast_loaders)
