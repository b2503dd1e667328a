"""Encrypts the files of an export with a passphrase, and finds out whether any of them was changed.

scrypt makes a key of the passphrase, and HKDF one for each file. AES-GCM seals a file in chunks, so that a file of any
size needs little memory; each chunk is bound to its number and to whether it is the last, so that none can be exchanged
or left out.
"""

from __future__ import annotations

import hmac
import io
import os
from base64 import b64decode, b64encode
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

KEY_BYTES, SALT_BYTES, TAG_BYTES = 32, 16, 16
CHUNK_BYTES = 65_536
# 64 MiB and a fifth of a second for each guess at the passphrase.
COST, LARGEST_COST = 1 << 16, 1 << 20


class CannotOpen(Exception):
    """The passphrase is missing or wrong, or the content was changed. The message is a clause without a subject."""


class Key(NamedTuple):
    """The key of an export. A manifest has its parameters, which are not secret."""

    secret: bytes
    salt: bytes
    cost: int

    @classmethod
    def create(cls, passphrase: str) -> Key:
        return _derive_key(passphrase, os.urandom(SALT_BYTES), COST)

    @classmethod
    def open(cls, passphrase: str, parameters: dict[str, Any]) -> Key:
        """Returns the key of an existing export. Raises CannotOpen."""
        if not passphrase:
            raise CannotOpen("is encrypted: set STATECORE_BACKUP_PASSPHRASE to its passphrase")
        salt, cost = b64decode(parameters["salt"]), int(parameters["cost"])
        if not 1 < cost <= LARGEST_COST:
            raise CannotOpen("has impossible parameters of encryption")
        key = _derive_key(passphrase, salt, cost)
        if not hmac.compare_digest(key.check, str(parameters["check"])):
            raise CannotOpen("was encrypted with another passphrase than STATECORE_BACKUP_PASSPHRASE")
        return key

    @property
    def check(self) -> str:
        """Shows whether a passphrase is the right one, and nothing else about it."""
        return b64encode(self._derive(b"check", self.salt)).decode()

    def as_dict(self) -> dict[str, Any]:
        return {"salt": b64encode(self.salt).decode(), "cost": self.cost, "check": self.check}

    def authenticate(self, content: bytes) -> str:
        """Returns a code that only this key makes of the content."""
        return hmac.new(self._derive(b"manifest", self.salt), content, sha256).hexdigest()

    def for_file(self, name: str, salt: bytes) -> AESGCM:
        """Returns the key of one file; a file with another name cannot take its place."""
        return AESGCM(self._derive(b"file " + name.encode(), salt))

    def _derive(self, purpose: bytes, salt: bytes) -> bytes:
        return HKDF(SHA256(), KEY_BYTES, salt=salt, info=b"statecore export " + purpose).derive(self.secret)


@lru_cache(maxsize=8)  # the exports of a chain have the same key
def _derive_key(passphrase: str, salt: bytes, cost: int) -> Key:
    return Key(Scrypt(salt, KEY_BYTES, n=cost, r=8, p=1).derive(passphrase.encode()), salt, cost)


def _build_nonce(number: int, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])


class EncryptingWriter:
    """A file whose content is encrypted while it is written. It is complete only after `close`."""

    def __init__(self, path: Path, key: Key) -> None:
        salt = os.urandom(SALT_BYTES)
        self.cipher, self.file, self.waiting, self.number = (
            key.for_file(path.name, salt),
            path.open("wb"),
            bytearray(),
            0,
        )
        self.file.write(salt)

    def write(self, data: bytes) -> int:
        self.waiting += data
        while len(self.waiting) > CHUNK_BYTES:  # the last chunk is sealed by `close`, and is never empty without need
            self._seal(bytes(self.waiting[:CHUNK_BYTES]), is_last=False)
            del self.waiting[:CHUNK_BYTES]
        return len(data)

    def _seal(self, chunk: bytes, *, is_last: bool) -> None:
        self.file.write(self.cipher.encrypt(_build_nonce(self.number, is_last), chunk, None))
        self.number += 1

    def flush(self) -> None:
        """Does nothing, because a chunk is written as a whole."""

    def close(self) -> None:
        self._seal(bytes(self.waiting), is_last=True)
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()
        self.file.close()


class DecryptingReader(io.RawIOBase):
    """The content of an encrypted file. Raises CannotOpen where it was changed or cut off."""

    def __init__(self, path: Path, key: Key) -> None:
        self.name, self.file = path.name, path.open("rb")
        self.cipher = key.for_file(path.name, self.file.read(SALT_BYTES))
        self.opened, self.number, self.is_last = b"", 0, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.opened and not self.is_last:
            self.opened = self._open_next()
        count = min(len(buffer), len(self.opened))
        buffer[:count], self.opened = self.opened[:count], self.opened[count:]
        return count

    def _open_next(self) -> bytes:
        sealed = self.file.read(CHUNK_BYTES + TAG_BYTES)
        self.is_last = not self.file.peek(1)
        try:
            opened = self.cipher.decrypt(_build_nonce(self.number, self.is_last), sealed, None)
        except (InvalidTag, ValueError):
            raise CannotOpen(f"has a file {self.name} that was changed or cut off") from None
        self.number += 1
        return opened

    def close(self) -> None:
        self.file.close()
        super().close()


def open_to_write(path: Path, key: Key | None) -> BinaryIO | EncryptingWriter:
    return EncryptingWriter(path, key) if key else path.open("wb")


def open_to_read(path: Path, key: Key | None) -> BinaryIO:
    return io.BufferedReader(DecryptingReader(path, key), CHUNK_BYTES) if key else path.open("rb")
