"""Wakes the sequencer after a commit: a datagram on a local socket, which costs the caller a few microseconds.

Nobody waits for an answer and nobody minds a bell that is not heard, because the sequencer also looks by itself.
"""

from __future__ import annotations

import atexit
import select
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

from django.conf import settings

NAME = "sequencer.sock"
LONGEST = 107  # bytes the kernel allows for the path of a socket


@cache
def _path(home: Path) -> Path | None:
    """None where the home's path is too long for a socket: then the sequencer looks by itself."""
    path = home / NAME
    return path if len(str(path).encode()) <= LONGEST else None


@cache
def _ringer() -> socket.socket:
    ringer = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ringer.settimeout(0)
    atexit.register(ringer.close)
    return ringer


def ring() -> None:
    """The door's listener. A full queue means that the bell is ringing already."""
    if path := _path(settings.STATECORE_HOME):
        with suppress(OSError):
            _ringer().sendto(b"!", str(path))


class Bell:
    """The leader's end."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(0)
        self.path = _path(settings.STATECORE_HOME)
        if self.path:
            self.path.unlink(missing_ok=True)
            self.socket.bind(str(self.path))

    def wait(self, seconds: float) -> None:
        """Until it rings or the time is up; however often it rang, it is silent afterwards."""
        select.select([self.socket], [], [], seconds)
        with suppress(BlockingIOError):
            while self.socket.recv(64):
                pass

    def close(self) -> None:
        """The name stays: it may be that of the next leader's bell by now, and nobody minds one that is not heard."""
        self.socket.close()
