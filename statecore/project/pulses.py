"""Receives the pulses of the processes that the supervisor has started (`operations.pulse`)."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from statecore.operations import pulse
from statecore.project.redis_url import LONGEST_SOCKET_PATH

NAME = "pulse.sock"
MAX_BYTES = 512


class Pulses:
    """A socket in the home, whose address the processes inherit. Without one, processes that hang are not noticed."""

    def __init__(self, home: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(0)
        path = home / NAME
        if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
            path.unlink(missing_ok=True)
            self.socket.bind(str(path))
            os.environ[pulse.NOTIFY_SOCKET] = str(path)

    def read(self) -> Iterator[int]:
        """Yields the ids of the processes that have sent a pulse since the last call."""
        with suppress(BlockingIOError):
            while True:
                fields = dict(line.split("=", 1) for line in self.socket.recv(MAX_BYTES).decode().splitlines())
                yield int(fields.get(pulse.PID, 0))
