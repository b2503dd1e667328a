"""Contents of artifacts on their way: read from a file or from bytes, and written to a file with their digest."""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .refusals import UnexpectedResponse

CHUNK = 65_536


class Content:
    """What a call sends besides JSON. Each attempt sends it from its beginning."""

    def __init__(self, source: bytes | IO[bytes], content_type: str) -> None:
        self.file = io.BytesIO(source) if isinstance(source, bytes) else source
        self.start, self.content_type = self.file.tell(), content_type
        self.size = self.file.seek(0, os.SEEK_END) - self.start

    def rewind(self) -> None:
        self.file.seek(self.start)

    def read(self) -> bytes:
        return self.file.read(CHUNK)


class Download:
    """A file for the body of a response, and its digest. Each attempt begins anew."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest = file, hashlib.sha256()

    def restart(self) -> None:
        self.file.seek(0)
        self.file.truncate()
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.digest.update(data)
        self.file.write(data)

    def check(self, headers: Mapping[str, str]) -> None:
        """Raises UnexpectedResponse if the content differs from the digest that the server has announced."""
        expected = f"sha-256=:{base64.b64encode(self.digest.digest()).decode()}:"
        if headers.get("repr-digest") != expected:
            raise UnexpectedResponse("the received content differs from the digest of the artifact")


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Opens a new file that takes the place of `path` at the end, and vanishes after an error."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            part.unlink()
        raise
