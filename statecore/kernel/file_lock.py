"""A lock on a file, which goes with the last process that holds it, however that ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TICK = 0.05


def take(path: Path, *, shared: bool = False, wait: float = 0.0) -> int:
    """The open file, whose closing lets go of the lock; a BlockingIOError when others do not let go in time."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, time.monotonic() + wait)
    except BaseException:
        os.close(file)
        raise
    return file


def _lock(file: int, kind: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(TICK)


@contextmanager
def held(path: Path, *, shared: bool = False, wait: float = 0.0) -> Iterator[int]:
    file = take(path, shared=shared, wait=wait)
    try:
        yield file
    finally:
        os.close(file)
