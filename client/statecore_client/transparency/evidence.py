"""Copies of the journal outside the database: `transitions.jsonl`, archive files and the events of exports.

Archives and exports contain the canonical bytes of each event. The journal file contains its members, from which the
canonical bytes are rebuilt; their hash, which the line contains too, shows that nothing was lost.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from .merkle import hash_leaf

GZIP_MAGIC = b"\x1f\x8b"
GENESIS = "0" * 64
# The members of the canonical bytes that precede the details, in their order.
MEMBERS = (
    "event_id", "entity_type", "entity_id", "sequence", "kind", "trigger", "from_state", "to_state", "severity",
    "actor", "channel", "timestamp", "caused_by", "prev_hash",
)  # fmt: skip
ADDED = frozenset({*MEMBERS, "position", "version", "hash", "event_name"})
UNREADABLE = (OSError, EOFError, zlib.error)


class InvalidEvidence(ValueError):
    """A line is not the event that it claims to be. The message names the position."""


class Line(NamedTuple):
    position: int
    body: bytes
    hash: str


def read_lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file, compressed or not. Raises InvalidEvidence if it is unreadable."""
    try:
        with path.open("rb") as file:
            is_compressed = file.read(2) == GZIP_MAGIC
        with gzip.open(path, "rb") if is_compressed else path.open("rb") as file:
            yield from file
    except UNREADABLE as error:
        raise InvalidEvidence(f"{path.name} is unreadable: {error}") from None


def parse_line(line: bytes) -> Line:
    """Returns the event of a line. Raises InvalidEvidence if its bytes do not match its hash."""
    try:
        record = orjson.loads(line)
        position, hash_ = record["position"], record["hash"]
        body = record["body"].encode() if "body" in record else _rebuild_matching_body(record)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise InvalidEvidence("a line is not an event") from None
    if not isinstance(position, int) or isinstance(position, bool):
        raise InvalidEvidence("a line has no position")
    if sha256(body).hexdigest() != hash_:
        raise InvalidEvidence(f"the event at position {position} does not match its hash")
    return Line(position, body, hash_)


def _rebuild_matching_body(record: dict[str, Any]) -> bytes:
    """Events of earlier versions have no identity; in the journal file it is null."""
    body = rebuild_body(record)
    if record.get("identity", "") is None and sha256(body).hexdigest() != record["hash"]:
        del record["identity"]
        return rebuild_body(record)
    return body


def rebuild_body(record: dict[str, Any]) -> bytes:
    """Returns the canonical bytes of an event as `transitions.jsonl` contains it."""
    members = {name: record[name] for name in MEMBERS}
    members["from_state"] = members["from_state"] or ""
    members["caused_by"] = members["caused_by"] or ""
    details = {name: value for name, value in record.items() if name not in ADDED}
    ordered = orjson.dumps(details, option=orjson.OPT_SORT_KEYS)
    return orjson.dumps(members)[:-1] + b',"details":' + ordered + b"}"


class Summary(NamedTuple):
    first: int
    last: int
    leaves: bytes


def read_evidence(lines: Iterable[bytes]) -> Summary:
    """Verifies hashes, consecutive positions and the chain of each entity, and returns the leaf hashes.

    A chain may begin in the middle if the first line is not position 1. Raises InvalidEvidence.
    """
    first, last, leaves = 0, 0, bytearray()
    chains: dict[tuple[str, str], tuple[int, str]] = {}
    for text in lines:
        line = parse_line(text)
        if first and line.position != last + 1:
            raise InvalidEvidence(f"position {last + 1} is missing: position {line.position} follows {last}")
        first, last = first or line.position, line.position
        _extend_chain(chains, line, begins_anywhere=first > 1)
        leaves += hash_leaf(line.body)
    if not first:
        raise InvalidEvidence("there are no events")
    return Summary(first, last, bytes(leaves))


def _extend_chain(chains: dict[tuple[str, str], tuple[int, str]], line: Line, *, begins_anywhere: bool) -> None:
    event = orjson.loads(line.body)
    key = event["entity_type"], event["entity_id"]
    sequence, previous = chains.get(key, (0, GENESIS))
    follows = (event["sequence"], event["prev_hash"]) == (sequence + 1, previous)
    if not follows and (key in chains or not begins_anywhere):
        raise InvalidEvidence(f"the event at position {line.position} does not follow the previous one of its entity")
    chains[key] = event["sequence"], line.hash
