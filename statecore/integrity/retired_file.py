"""A file of retired events, read line by line and believed in nothing: bytes, chains and seals are computed anew."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from django.db import connection

from ..journal import GENESIS, EventKind, digest
from ..records import Anchor, Seal
from ..records.retirement import Anchored
from ..records.seal import root_of

FETCHED_AT_ONCE = 500
UNREADABLE = (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError)
Key = tuple[str, str]
EVER = datetime.min.replace(tzinfo=UTC)


class Before(NamedTuple):
    """What an event follows that was retired before."""

    sequence: int
    hash: str
    to_state: str
    was_forced: bool


class NotAsSealed(Exception):
    """What is wrong with a file, and where."""


@dataclass
class Contents:
    """What a range of events comes to, by the file's own bytes."""

    until: datetime = EVER
    last: dict[Key, Anchored] = field(default_factory=dict)
    moves: Counter[tuple[str, ...]] = field(default_factory=Counter)
    forced: Counter[tuple[str, ...]] = field(default_factory=Counter)
    # The first event of each entity that had events before this range: what it must follow.
    begins: dict[Key, dict[str, Any]] = field(default_factory=dict)

    def add(self, position: int, told: dict[str, Any], hash_: str) -> None:
        key = told["entity_type"], told["entity_id"]
        before = self.last.get(key)
        if before is None and told["sequence"] > 1:
            self.begins[key] = told
        elif not _follows(told, before):
            raise NotAsSealed(f"the event at position {position} does not follow the one before it")
        moment, is_forced = datetime.fromisoformat(told["timestamp"]), told["kind"] == EventKind.OVERRIDE
        self.until = max(self.until, moment)
        self.moves[(*key[:1], told["from_state"], told["to_state"])] += 1
        if is_forced:
            self.forced[told["entity_type"], told["actor"]] += 1
        self.last[key] = Anchored(
            *key, told["sequence"], position, told["event_id"], told["kind"], told["trigger"], told["to_state"],
            told["actor"], told["details"]["actor_kind"], told["channel"], moment, hash_,
            is_forced or (before is not None and before.was_forced),
        )  # fmt: skip

    def join(self) -> None:
        """To what was retired before: the chains must go on there, and who was forced stays forced."""
        anchors = _anchors_before(self.begins)
        for key, told in self.begins.items():
            anchor = anchors.get(key)
            if anchor is None or not _follows(told, anchor):
                raise NotAsSealed(f"{' '.join(key)} does not go on where the file before it ended")
            self.last[key] = self.last[key]._replace(was_forced=self.last[key].was_forced or bool(anchor.was_forced))


def contents(path: Path, seals: Sequence[Seal]) -> Contents:
    """Of a file that holds exactly the events under these seals."""
    found = Contents()
    try:
        with gzip.open(path, "rb") as file:
            lines = iter(file)
            for seal in seals:
                _read_sealed(lines, seal, found)
            if next(lines, None) is not None:
                raise NotAsSealed(f"it goes on after position {seals[-1].last_position}")
    except UNREADABLE as error:
        raise NotAsSealed(f"it cannot be read: {type(error).__name__}: {error}") from error
    found.join()
    return found


def _read_sealed(lines: Iterator[bytes], seal: Seal, found: Contents) -> None:
    hashes = []
    for position in range(seal.first_position, seal.last_position + 1):
        line = next(lines, None)
        if line is None:
            raise NotAsSealed(f"it ends before position {position}")
        told = orjson.loads(line)
        if told["position"] != position:
            raise NotAsSealed(f"where position {position} should be is {told['position']}")
        if digest(told["body"]) != told["hash"]:
            raise NotAsSealed(f"the event at position {position} does not hash to its hash")
        found.add(position, orjson.loads(told["body"]), told["hash"])
        hashes.append(told["hash"])
    if root_of(seal.first_position, hashes) != seal.root:
        raise NotAsSealed(f"its events are not those under {seal}")


def _follows(told: dict[str, Any], before: Anchored | Before | None) -> bool:
    """An event on the one before it, or as the first of all."""
    expected = (before.sequence, before.hash, before.to_state) if before else (0, GENESIS, "")
    return (told["sequence"] - 1, told["prev_hash"], told["from_state"]) == expected


def _anchors_before(begins: dict[Key, dict[str, Any]]) -> dict[Key, Before]:
    """Asked for by all three of their names at once: an entity may have had many anchors by now."""
    wanted = [(*key, told["sequence"] - 1) for key, told in begins.items()]
    found: dict[Key, Before] = {}
    with connection.cursor() as cursor:
        for start in range(0, len(wanted), FETCHED_AT_ONCE):
            portion = wanted[start : start + FETCHED_AT_ONCE]
            cursor.execute(
                f"SELECT entity_type, entity_id, sequence, hash, to_state, was_forced FROM {Anchor._meta.db_table} "
                f"WHERE (entity_type, entity_id, sequence) IN (VALUES {', '.join(['(%s, %s, %s)'] * len(portion))})",
                [part for key in portion for part in key],
            )
            found |= {(kind, pk): Before(*rest) for kind, pk, *rest in cursor.fetchall()}
    return found
