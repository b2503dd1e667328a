"""Checkpoints (C2SP `tlog-checkpoint`): the size and root of the tree, signed by the journal, cosigned by witnesses."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from .merkle import HASH_SIZE
from .notes import (
    COSIGNATURE,
    SIGNATURE_SIZE,
    InvalidNote,
    Note,
    Signature,
    Signer,
    VerifierKey,
    decode,
    encode,
    sign_note,
    verify_note,
)

TIMESTAMP_SIZE = 8
SIZE = re.compile("0|[1-9][0-9]{0,17}")
EPOCH = re.compile("epoch ([1-9][0-9]{0,8})")


class Checkpoint(NamedTuple):
    origin: str
    size: int
    root: bytes
    epoch: int = 1

    def __str__(self) -> str:
        return f"{self.origin}\n{self.size}\n{encode(self.root)}\nepoch {self.epoch}\n"

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Ignores unknown extension lines, and assumes epoch 1 without an epoch line."""
        origin, size, root, *extensions = [*text.split("\n"), "", ""]
        if not origin or not SIZE.fullmatch(size):
            raise InvalidNote("this is not a checkpoint: an origin, a size and a root")
        content = decode(root)
        if len(content) != HASH_SIZE:
            raise InvalidNote("the root of the checkpoint is not a SHA-256 hash")
        epochs = [int(found[1]) for line in extensions if (found := EPOCH.fullmatch(line))]
        return cls(origin, int(size), content, epochs[0] if epochs else 1)


def sign_checkpoint(checkpoint: Checkpoint, signer: Signer) -> Note:
    return sign_note(str(checkpoint), signer)


def open_checkpoint(content: str, key: VerifierKey) -> Checkpoint:
    """Returns the checkpoint of a signed note. Raises InvalidNote unless the key has signed it."""
    note = Note.parse(content)
    verify_note(note, key)
    checkpoint = Checkpoint.parse(note.text)
    if checkpoint.origin != key.name:
        raise InvalidNote(f"the checkpoint is of {checkpoint.origin!r}, but the key is of {key.name!r}")
    return checkpoint


class Cosignature(NamedTuple):
    """The statement of a witness that, at this time, the checkpoint extended everything it had seen."""

    witness: str
    at: datetime


def _cosigned_message(text: str, timestamp: int) -> bytes:
    return f"cosignature/v1\ntime {timestamp}\n{text}".encode()


def cosign(note: Note, signer: Signer, at: datetime) -> Signature:
    key, timestamp = signer.verifier, int(at.timestamp())
    signature = signer.sign(_cosigned_message(note.text, timestamp))
    return Signature(key.name, key.key_id, timestamp.to_bytes(TIMESTAMP_SIZE, "big") + signature)


def verify_cosignature(text: str, signature: Signature, key: VerifierKey) -> Cosignature:
    """Raises InvalidNote unless the key of the witness has cosigned the text of a checkpoint."""
    stamp, content = signature.content[:TIMESTAMP_SIZE], signature.content[TIMESTAMP_SIZE:]
    if key.algorithm != COSIGNATURE or not signature.is_by(key) or len(content) != SIGNATURE_SIZE:
        raise InvalidNote(f"this is not a cosignature by {key.name}")
    timestamp = int.from_bytes(stamp, "big")
    if timestamp >= 1 << 40 or not key.verify(content, _cosigned_message(text, timestamp)):
        raise InvalidNote(f"the cosignature of {key.name} is wrong")
    return Cosignature(key.name, datetime.fromtimestamp(timestamp, UTC))
