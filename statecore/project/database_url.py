"""DATABASE_URL: from one line of text to Django's database settings."""

from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from statecore.project.refusal import Refused

DatabaseSettings = dict[str, Any]

SHAPES = "sqlite:///path or postgres://user:password@host:port/name"


def parse(url: str, *, synchronous: str = "FULL", pool: int = 0) -> DatabaseSettings:
    """Three slashes start a path relative to the current directory, four an absolute one.

    A `pool` of 0 means that each thread keeps a connection of its own.
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  urlsplit checks a port only when it is asked for
    except ValueError:
        # Not what Python says of it: that quotes the part it stumbled over, which may be a password.
        raise Refused(f"DATABASE_URL cannot be read; it should be {SHAPES}.") from None
    if parts.scheme == "sqlite":
        return _sqlite(parts, synchronous)
    if parts.scheme in ("postgres", "postgresql"):
        return _postgres(parts, pool)
    scheme = f"starts with {parts.scheme!r}" if parts.scheme else "has no scheme"
    raise Refused(f"DATABASE_URL {scheme}, but it should be {SHAPES}.")


def _sqlite(parts: SplitResult, synchronous: str) -> DatabaseSettings:
    path = unquote(parts.path.removeprefix("/"))
    if parts.netloc or not path:
        raise Refused("DATABASE_URL names no SQLite file; it should be sqlite:///path.")
    if path == ":memory:":
        raise Refused("DATABASE_URL asks for SQLite in memory, which processes cannot share.")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            # A writer takes its lock at BEGIN: upgrading later fails at once instead of waiting.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            # INSERT OR REPLACE deletes a row without firing triggers unless they are recursive.
            "init_command": (
                "PRAGMA journal_mode=WAL;"
                f"PRAGMA synchronous={synchronous};"
                "PRAGMA foreign_keys=ON;"
                "PRAGMA recursive_triggers=ON"
            ),
        },
    }


def _postgres(parts: SplitResult, pool: int) -> DatabaseSettings:
    query = dict(parse_qsl(parts.query))
    name = unquote(parts.path.removeprefix("/"))
    if not name or "/" in name:
        raise Refused(f"DATABASE_URL names no PostgreSQL database; it should be {SHAPES}.")
    return {
        "ENGINE": "statecore.project.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or query.pop("user", "")),
        "PASSWORD": unquote(parts.password or query.pop("password", "")),
        "HOST": query.pop("host", "") or unquote(parts.hostname or ""),
        "PORT": query.pop("port", "") or str(parts.port or ""),
        "CONN_MAX_AGE": 0 if pool else 600,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 5,
            # The door's statement is prepared by the server from its second use on.
            "server_side_binding": True,
            "prepare_threshold": 2,
            **({"pool": {"min_size": 1, "max_size": pool, "timeout": 10}} if pool else {}),
            **query,
        },
    }
