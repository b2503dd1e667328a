"""REDIS_URL: validation, the embedded server's URL, Celery's notation, and the options of connections."""

import hashlib
import os
import socket
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

SHAPES = "redis://host:port/0, rediss://host:port/0 or unix:///path"
# The kernel allows 107 bytes for the path of a unix socket.
LONGEST_SOCKET_PATH = 107


def check(url: str) -> str:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  urlsplit validates the port when it is accessed
    except ValueError:
        # Python's message quotes a part of the URL, which may be the password.
        raise ValueError(f"cannot be read; it should be {SHAPES}") from None
    if parts.scheme in ("redis", "rediss") and parts.hostname:
        return url
    if parts.scheme == "unix" and parts.path and not parts.netloc:
        return url
    raise ValueError(f"has an unknown form; it should be {SHAPES}")


def embedded(home: Path) -> str:
    return f"unix://{socket_path(home)}"


def socket_path(home: Path) -> Path:
    """Returns a path in the home, or a short one in the temporary directory if that would be too long."""
    path = home / "redis.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"statecore-{os.getuid()}-{digest}" / "redis.sock"


def get_keepalives(url: str) -> dict[str, Any]:
    """Returns options with which a client notices after 25 seconds that the host of the server is gone.

    Without them a worker that waits for a message could wait for hours. A unix socket needs none.
    """
    if urlsplit(url).scheme == "unix":
        return {}
    names = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
    found = {getattr(socket, name): value for name, value in names.items() if hasattr(socket, name)}
    return {"socket_keepalive": True, "socket_keepalive_options": found}


def for_celery(url: str) -> str:
    """Celery calls a unix socket `redis+socket` and its database number `virtual_host`."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"redis+socket://{parts.path}?virtual_host={database}"
