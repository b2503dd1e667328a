"""PostgreSQL's binary result format, where the text one would cost more than the query."""

from __future__ import annotations

from typing import Any

from django.db import connection

BINARY = 1  # psycopg.pq.Format.BINARY; psycopg is not installed where only SQLite is used


def ask_for_binary(cursor: Any) -> None:
    """Django's loader of text timestamps is slow, and bytes in text form are twice as long."""
    if connection.vendor == "postgresql":
        cursor.cursor.format = BINARY
