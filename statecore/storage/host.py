"""This host, as processes name it to each other, and whether one of its processes still exists."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

HOST = socket.gethostname()


@cache
def get_scope() -> str:
    """Returns what identifies the processes that this one can look up by their numbers.

    Containers with the same host name have different processes, and so has the same host after it was started again.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return HOST


def process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
