"""Locks on files, and the hash of a whole file."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RETRY_SECONDS = 0.05


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def take_lock(path: Path, *, shared: bool = False, wait: float = 0.0) -> int:
    """Lock a file, creating it if needed, and return its descriptor; closing the descriptor releases the lock.

    The kernel releases the lock when the last process that holds it ends. Raises BlockingIOError when another
    process still holds it after `wait` seconds.
    """
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
            time.sleep(RETRY_SECONDS)


@contextmanager
def hold_lock(path: Path, *, shared: bool = False, wait: float = 0.0) -> Iterator[int]:
    file = take_lock(path, shared=shared, wait=wait)
    try:
        yield file
    finally:
        os.close(file)
