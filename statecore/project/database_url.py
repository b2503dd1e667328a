"""DATABASE_URL: translation into Django's database settings."""

from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

DatabaseSettings = dict[str, Any]

# A server whose host is gone is noticed after 25 seconds, also while data waits to be acknowledged (milliseconds).
# `storage.postgresql` asks the server for the same, so that it ends the transactions of clients that are gone.
KEEPALIVES = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
SHAPES = "sqlite:///path or postgres://user:password@host:port/name"


def parse(url: str, *, synchronous: str = "FULL", pool: int = 0) -> DatabaseSettings:
    """Raises ValueError with the rest of a sentence that starts with the variable's name.

    Three slashes precede a path relative to the current directory, four an absolute one. With a `pool` of 0 each thread
    keeps a connection; SQLite has no pool, and opens one for each request instead.
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  urlsplit validates the port when it is accessed
    except ValueError:
        # Python's message quotes a part of the URL, which may be the password.
        raise ValueError(f"cannot be read; it should be {SHAPES}") from None
    if parts.scheme == "sqlite":
        return _sqlite(parts, synchronous, pool)
    if parts.scheme in ("postgres", "postgresql"):
        return _postgres(parts, pool)
    scheme = f"starts with {parts.scheme!r}" if parts.scheme else "has no scheme"
    raise ValueError(f"{scheme}, but it should be {SHAPES}")


def _sqlite(parts: SplitResult, synchronous: str, pool: int) -> DatabaseSettings:
    path = unquote(parts.path.removeprefix("/"))
    if parts.netloc or not path:
        raise ValueError("names no SQLite file; it should be sqlite:///path")
    if path == ":memory:":
        raise ValueError("is SQLite in memory, which processes cannot share; it should be sqlite:///path")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        # With a pool each request runs in a thread of its own, whose connection would stay open until the collector
        # of garbage finds it.
        "CONN_MAX_AGE": 0 if pool else 600,
        "OPTIONS": {
            # Writers lock at BEGIN: upgrading a read lock later fails immediately instead of waiting.
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
        raise ValueError(f"names no PostgreSQL database; it should be {SHAPES}")
    return {
        "ENGINE": "statecore.storage.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or query.pop("user", "")),
        "PASSWORD": unquote(parts.password or query.pop("password", "")),
        "HOST": query.pop("host", "") or unquote(parts.hostname or ""),
        "PORT": query.pop("port", "") or str(parts.port or ""),
        "CONN_MAX_AGE": 0 if pool else 600,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 5,
            **KEEPALIVES,
            # The server prepares the statements of the transition service from their second use on.
            "server_side_binding": True,
            "prepare_threshold": 2,
            **({"pool": {"min_size": 1, "max_size": pool, "timeout": 10}} if pool else {}),
            **query,
        },
    }
