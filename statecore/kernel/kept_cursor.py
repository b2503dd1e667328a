"""A cursor that stays with its connection: a new one would look up how to read each column again."""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from .binary import ask_for_binary


def kept_cursor(connection: BaseDatabaseWrapper) -> Any:
    """One at a time uses it, and reads its answer to the end.

    Not on SQLite, where an open cursor would keep a closed connection, and its lock, alive; and not a cursor that
    logs its queries, which would go on logging them.
    """
    kept = getattr(connection, "kept_cursor", None)
    if kept is not None and kept.cursor.connection is connection.connection and not connection.queries_logged:
        return kept
    cursor = new_cursor(connection)
    if connection.vendor == "postgresql" and not connection.queries_logged:
        connection.kept_cursor = cursor  # type: ignore[attr-defined]
    return cursor


def ready_cursor() -> Any:
    """For a single statement outside the door: what Django does before it makes a cursor, and the kept one."""
    connection = connections[DEFAULT_DB_ALIAS]
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    return kept_cursor(connection)


def new_cursor(connection: BaseDatabaseWrapper) -> Any:
    cursor = connection.cursor()
    ask_for_binary(cursor, connection)
    return cursor
