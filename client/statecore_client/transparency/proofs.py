"""The proof that an event is in the journal: a JSON document that is verified with the journal's public key only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from .checkpoint import Checkpoint, open_checkpoint
from .merkle import HASH_SIZE, hash_leaf, verify_inclusion
from .notes import InvalidNote, VerifierKey, decode, encode

MAX_PATH = 64


class InvalidProof(ValueError):
    """The proof does not verify. The message is a sentence."""


class ProvenEvent(NamedTuple):
    position: int
    event: dict[str, Any]
    checkpoint: Checkpoint


def format_proof(position: int, body: str, path: list[bytes], checkpoint: Checkpoint, note: str) -> dict[str, Any]:
    return {
        "position": position,
        "epoch": checkpoint.epoch,
        "body": body,
        "leaf_hash": encode(hash_leaf(body.encode())),
        "inclusion": [encode(node) for node in path],
        "checkpoint": note,
    }


def verify_proof(document: Mapping[str, Any], key: VerifierKey) -> ProvenEvent:
    """Raises InvalidProof unless the key has signed a checkpoint that includes exactly these bytes."""
    try:
        position, body, note = document["position"], document["body"], document["checkpoint"]
        path = [decode(node) for node in document["inclusion"]]
        claimed = decode(document["leaf_hash"]), document["epoch"]
        if not isinstance(position, int) or len(path) > MAX_PATH or any(len(node) != HASH_SIZE for node in path):
            raise InvalidProof("The proof is malformed.")
        leaf = hash_leaf(body.encode())
        checkpoint = open_checkpoint(note, key)
    except InvalidNote as error:
        raise InvalidProof(f"The checkpoint does not verify: {error}.") from None
    except (LookupError, TypeError, AttributeError, UnicodeError):
        raise InvalidProof("The file is not a proof: position, epoch, body, inclusion and checkpoint.") from None
    if claimed != (leaf, checkpoint.epoch):
        raise InvalidProof("The leaf hash or the epoch is not that of the event and its checkpoint.")
    if not verify_inclusion(leaf, position - 1, checkpoint.size, path, checkpoint.root):
        raise InvalidProof(f"The event is not at position {position} of the journal that was signed.")
    return ProvenEvent(position, _parse_body(body), checkpoint)


def _parse_body(body: str) -> dict[str, Any]:
    try:
        event = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise InvalidProof("The signed bytes are not an event.") from None
    if not isinstance(event, dict):
        raise InvalidProof("The signed bytes are not an event.")
    return event
