"""Verifies archived events: the archive records, their anchors, and the contents of the archive files.

Each record covers a range of positions; their events are in one file. Hashes, chains and leaves are computed from the
file's bytes.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from django.db import connection

from statecore_client.transparency.merkle import hash_leaf
from statecore_client.transparency.notes import encode

from ...journal import GENESIS, TRANSITION_KINDS, Anchor, ArchivedRange, EventKind, digest
from ...journal.archive import AnchorValues, digest_anchors
from ...journal.tree import compute_root_at, read_leaves
from ...storage.files import sha256
from .findings import Finding, build_journal_error

ANCHORS_PER_QUERY = 500
OLD_ROOT_LENGTH = 64  # of records that are older than the tree
UNREADABLE = (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError)
BEGINNING = datetime.min.replace(tzinfo=UTC)
EntityKey = tuple[str, str]


class InvalidArchive(Exception):
    """The file does not contain exactly the archived events. The message names the problem and its position."""


def check_archive_records() -> Iterator[Finding]:
    """Yields the first problem of the archive records. Later records build on the invalid one, so it stops there."""
    previous: ArchivedRange | None = None
    for record in ArchivedRange.objects.order_by("last_position"):
        if problem := _find_problem_in_record(record, previous):
            yield build_journal_error("archive", f"{record}: {problem}")
            return
        previous = record


def _find_problem_in_record(record: ArchivedRange, previous: ArchivedRange | None) -> str | None:
    if record.first_position != (previous.last_position + 1 if previous else 1):
        return "the previous archive record is missing"
    if record.prev_hash != (previous.hash if previous else GENESIS):
        return "it does not follow the previous archive record"
    if record.hash != record.digest():
        return "its hash does not match its content"
    if len(record.root) < OLD_ROOT_LENGTH and record.root != encode(compute_root_at(record.last_position)):
        return "the tree up to its last position differs from the archived one"
    if digest_anchors(get_anchors(record)) != record.anchors:
        return "its anchors differ from the archived ones"
    return None


def get_anchors(record: ArchivedRange) -> Iterable[AnchorValues]:
    rows = Anchor.objects.filter(archived_range=record).values_list(*AnchorValues._fields)
    return (AnchorValues._make(row) for row in rows.iterator())


def check_archive_files(folder: Path) -> Iterator[Finding]:
    """Verifies every archive file completely, including that its chains end in the anchors in the database."""
    for record in ArchivedRange.objects.order_by("last_position"):
        if problem := _find_problem_in_file(record, folder / record.file):
            yield build_journal_error("archive", f"{record}: {problem}")


def _find_problem_in_file(record: ArchivedRange, path: Path) -> str | None:
    if not path.exists():
        return f"there is no such file in {path.parent}"
    try:
        summary = read_archive(path, record.first_position, read_leaves(record.first_position, record.last_position))
    except InvalidArchive as error:
        return str(error)
    if (
        digest_anchors(summary.last_events.values()) != record.anchors
        or digest_anchors(get_anchors(record)) != record.anchors
    ):
        return "its chains do not end in the anchors in the database"
    if sha256(path) != record.sha256:
        return "its events are correct, but its bytes differ from the archived ones"
    return None


class PreviousEvent(NamedTuple):
    """The parts of an anchor that the next event of its entity must match."""

    sequence: int
    hash: str
    to_state: str
    was_forced: bool


@dataclass
class ArchiveSummary:
    """The last event of each entity in an archive file, and totals of its transitions and overrides."""

    until: datetime = BEGINNING
    last_events: dict[EntityKey, AnchorValues] = field(default_factory=dict)
    transitions: Counter[tuple[str, ...]] = field(default_factory=Counter)
    overrides: Counter[tuple[str, ...]] = field(default_factory=Counter)
    # The first event of each entity that continues from an earlier file.
    continued: dict[EntityKey, dict[str, Any]] = field(default_factory=dict)

    def add(self, position: int, event: dict[str, Any], hash_: str) -> None:
        key = event["entity_type"], event["entity_id"]
        previous = self.last_events.get(key)
        if previous is None and event["sequence"] > 1:
            self.continued[key] = event
        elif not _follows(event, previous):
            raise InvalidArchive(f"the event at position {position} does not follow the previous one")
        at, is_override = datetime.fromisoformat(event["timestamp"]), event["kind"] == EventKind.OVERRIDE
        self.until = max(self.until, at)
        if event["kind"] in TRANSITION_KINDS:
            self.transitions[(*key[:1], event["from_state"], event["to_state"])] += 1
        if is_override:
            self.overrides[event["entity_type"], event["actor"]] += 1
        self.last_events[key] = AnchorValues(
            *key, event["sequence"], position, event["event_id"], event["kind"], event["trigger"], event["to_state"],
            event["actor"], event["details"]["actor_kind"], event["channel"], at, hash_,
            is_override or (previous is not None and previous.was_forced), event["details"].get("evidence") or "",
        )  # fmt: skip

    def connect_to_earlier_archives(self) -> None:
        """Verifies that the chains continue from their anchors, and adopts `was_forced` from these."""
        anchors = _get_preceding_anchors(self.continued)
        for key, event in self.continued.items():
            anchor = anchors.get(key)
            if anchor is None or not _follows(event, anchor):
                raise InvalidArchive(f"{' '.join(key)} does not continue from the previous archive file")
            last = self.last_events[key]
            self.last_events[key] = last._replace(was_forced=last.was_forced or bool(anchor.was_forced))


def read_archive(path: Path, first: int, leaves: Sequence[bytes]) -> ArchiveSummary:
    """Verifies that the file contains exactly the events with these leaves. Raises InvalidArchive if not."""
    summary = ArchiveSummary()
    try:
        with gzip.open(path, "rb") as file:
            lines = iter(file)
            for position, leaf in enumerate(leaves, first):
                _read_event(next(lines, None), position, leaf, summary)
            if next(lines, None) is not None:
                raise InvalidArchive(f"it has more lines after position {first + len(leaves) - 1}")
    except UNREADABLE as error:
        raise InvalidArchive(f"it is unreadable: {type(error).__name__}: {error}") from error
    summary.connect_to_earlier_archives()
    return summary


def _read_event(line: bytes | None, position: int, leaf: bytes, summary: ArchiveSummary) -> None:
    if line is None:
        raise InvalidArchive(f"it ends before position {position}")
    record = orjson.loads(line)
    if record["position"] != position:
        raise InvalidArchive(f"it has position {record['position']} in place of position {position}")
    if digest(record["body"]) != record["hash"]:
        raise InvalidArchive(f"the event at position {position} does not match its hash")
    if hash_leaf(record["body"].encode()) != leaf:
        raise InvalidArchive(f"the event at position {position} differs from its leaf in the tree")
    summary.add(position, orjson.loads(record["body"]), record["hash"])


def _follows(event: dict[str, Any], previous: AnchorValues | PreviousEvent | None) -> bool:
    expected = (previous.sequence, previous.hash, previous.to_state) if previous else (0, GENESIS, "")
    return (event["sequence"] - 1, event["prev_hash"], event["from_state"]) == expected


def _get_preceding_anchors(continued: dict[EntityKey, dict[str, Any]]) -> dict[EntityKey, PreviousEvent]:
    """Returns the anchor before each of these events. An entity can have many, so the sequence selects it."""
    wanted = [(*key, event["sequence"] - 1) for key, event in continued.items()]
    found: dict[EntityKey, PreviousEvent] = {}
    with connection.cursor() as cursor:
        for start in range(0, len(wanted), ANCHORS_PER_QUERY):
            batch = wanted[start : start + ANCHORS_PER_QUERY]
            cursor.execute(
                f"SELECT entity_type, entity_id, sequence, hash, to_state, was_forced FROM {Anchor._meta.db_table} "
                f"WHERE (entity_type, entity_id, sequence) IN (VALUES {', '.join(['(%s, %s, %s)'] * len(batch))})",
                [part for key in batch for part in key],
            )
            found |= {(kind, pk): PreviousEvent(*rest) for kind, pk, *rest in cursor.fetchall()}
    return found
