"""Reads texts that are not valid UTF-8, as after a flipped bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def tolerate_invalid_text() -> Iterator[None]:
    """Lets SQLite return texts that a flipped bit made undecodable, so that the checks can report them."""
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    connection.connection.text_factory = lambda raw: raw.decode(errors="replace")
    try:
        yield
    finally:
        connection.connection.text_factory = str
