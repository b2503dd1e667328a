"""Wakes the sequencer after a commit with a datagram on a local socket, which costs the sender a few microseconds.

Lost wake-ups are harmless: the sequencer also polls.
"""

from __future__ import annotations

import atexit
import select
import socket
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from django.conf import settings

NAME = "sequencer.sock"
# From one round of the sequencer to the next, so that several events share a round: a round costs 2 ms of processor
# time, however few events it has. An event that comes after a pause is delivered at once.
GATHER_SECONDS = 0.025
# A process that has sent a wake-up less than this ago sends none: a round follows each wake-up after GATHER_SECONDS.
SPARED_SECONDS = GATHER_SECONDS / 2
MAX_PATH_BYTES = 107  # the kernel's limit for the path of a socket


@cache
def _get_socket_path(home: Path) -> Path | None:
    """Returns None if the path is too long for a socket: then the sequencer only polls."""
    path = home / NAME
    return path if len(str(path).encode()) <= MAX_PATH_BYTES else None


@cache
def _get_sending_socket() -> socket.socket:
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.settimeout(0)
    atexit.register(sender.close)
    return sender


_last_sent = 0.0


def wake_sequencer() -> None:
    """Wakes the sequencer; called after each commit. Errors are ignored: if the queue is full, a wake-up is pending."""
    global _last_sent
    if (moment := time.monotonic()) - _last_sent < SPARED_SECONDS:
        return
    _last_sent = moment
    if path := _get_socket_path(settings.STATECORE_HOME):
        with suppress(OSError):
            _get_sending_socket().sendto(b"!", str(path))


class WakeupListener:
    """The leader's end of the socket."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(0)
        self.path = _get_socket_path(settings.STATECORE_HOME)
        if self.path:
            self.path.unlink(missing_ok=True)
            self.socket.bind(str(self.path))

    def wait(self, seconds: float) -> bool:
        """Returns whether a wake-up has arrived before the time-out, and discards all that have."""
        woken, _, _ = select.select([self.socket], [], [], seconds)
        with suppress(BlockingIOError):
            while self.socket.recv(64):
                pass
        return bool(woken)

    def close(self) -> None:
        """Closes the socket and leaves its path in place, because the next leader may already use it."""
        self.socket.close()
