"""Receives a content in bounded memory: into a temporary file, which vanishes with the process, with its digest."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple

from django.conf import settings

from ..kernel.refusals import Invalid

CHUNK = 262_144


class Upload(NamedTuple):
    file: IO[bytes]
    sha256: str
    size: int


@contextmanager
def receive(read: Callable[[int], bytes], length: int) -> Iterator[Upload]:
    """Read exactly `length` bytes; raises Invalid if there are fewer.

    In the home directory, because the temporary directory of a container may be memory.
    """
    with tempfile.TemporaryFile(dir=settings.STATECORE_HOME) as file:
        digest, left = hashlib.sha256(), length
        while left and (chunk := read(min(CHUNK, left))):
            digest.update(chunk)
            file.write(chunk)
            left -= len(chunk)
        if left:
            raise Invalid({"body": [f"has {length - left} of the {length} bytes that Content-Length announces."]})
        file.flush()
        file.seek(0)
        yield Upload(file, digest.hexdigest(), length)
