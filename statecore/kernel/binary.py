"""PostgreSQL's binary result format, where the text one would cost more than the query."""

from __future__ import annotations

from typing import Any

import orjson
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

BINARY = 1  # psycopg.pq.Format.BINARY; psycopg is not installed where only SQLite is used


def ask_for_binary(cursor: Any, connection: BaseDatabaseWrapper) -> None:
    """Django's loader of text timestamps is slow, and bytes in text form are twice as long."""
    if connection.vendor == "postgresql":
        cursor.cursor.format = BINARY


def _load_binary_json(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Of text results Django reads the JSON by itself, so only the binary loader is replaced."""
    if connection.vendor != "postgresql":
        return
    from psycopg.adapt import Buffer, Loader
    from psycopg.pq import Format

    class JsonbLoader(Loader):
        format = Format.BINARY

        def load(self, data: Buffer) -> Any:
            return orjson.loads(bytes(data)[1:])  # after the version byte of jsonb

    connection.connection.adapters.register_loader("jsonb", JsonbLoader)


connection_created.connect(_load_binary_json)
