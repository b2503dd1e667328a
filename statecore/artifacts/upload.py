"""Receives a content in bounded memory: into a temporary file, which vanishes with the process, with its digest."""

from __future__ import annotations

import errno
import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple

import structlog
from django.conf import settings

from ..kernel.refusals import Invalid, StorageUnavailable

log = structlog.get_logger(__name__)

CHUNK = 262_144
DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


class Upload(NamedTuple):
    file: IO[bytes]
    sha256: str
    size: int


def is_disk_full(error: OSError) -> bool:
    return error.errno in DISK_FULL


def disk_is_full(error: OSError) -> StorageUnavailable:
    """Log the error and return the refusal."""
    log.error("disk_full", error=str(error))
    return StorageUnavailable("the disk of the server is full: try again later", retry_after=60)


@contextmanager
def receive(read: Callable[[int], bytes], length: int) -> Iterator[Upload]:
    """Read exactly `length` bytes; raises Invalid if there are fewer, and StorageUnavailable if the disk is full.

    In the home directory, because the temporary directory of a container may be memory.
    """
    try:
        with tempfile.TemporaryFile(dir=settings.STATECORE_HOME) as file:
            digest = _copy(read, length, file)
            file.seek(0)
            yield Upload(file, digest, length)
    except OSError as error:  # closing the file raises it again, because it writes what is left
        if not is_disk_full(error):
            raise
        raise disk_is_full(error) from error


def _copy(read: Callable[[int], bytes], length: int, file: IO[bytes]) -> str:
    """Return the digest."""
    digest, left = hashlib.sha256(), length
    while left and (chunk := read(min(CHUNK, left))):
        digest.update(chunk)
        file.write(chunk)
        left -= len(chunk)
    if left:
        raise Invalid({"body": [f"has {length - left} of the {length} bytes that Content-Length announces."]})
    file.flush()
    return digest.hexdigest()
