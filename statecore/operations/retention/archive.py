"""Archives events in batches: writes a file, verifies it on disk, then deletes its events in one transaction."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from django.db import IntegrityError, connection, transaction

from statecore_client.transparency.notes import encode

from ...journal import GENESIS, Anchor, ArchivedRange
from ...journal.archive import PERMISSION, AnchorValues, digest_anchors, get_latest_archived_range
from ...journal.commit_order import EVENTS, POSITIONS
from ...journal.tree import compute_root_at, read_leaves
from ...kernel.actors import Actor
from ...kernel.clock import now
from ...kernel.validation import text_error
from ...records import audit_note
from ...storage import files
from ...storage.files import sha256
from ...storage.write_guard import RETENTION, allow_writes
from ...transitions.change import REASON_LIMIT
from ...transitions.override import SHORTEST_REASON
from .. import integrity
from ..backup.tables import insert_rows
from ..integrity.archives import ArchiveSummary, InvalidArchive, read_archive
from .selection import BATCH, find_due_events

ANCHORS = Anchor._meta.db_table
PAGE = 1_000


class ArchivingFailed(Exception):
    """Archiving stops. Earlier batches stay archived, and the failed one is unchanged in the database."""


def archive_events(
    older_than: datetime, folder: Path, *, by: Actor, reason: str, limit: int = BATCH
) -> Iterator[ArchivedRange]:
    """Archives all due events, at most `limit` per file, and yields the record of each file."""
    if not by.has_permission(PERMISSION):
        raise ArchivingFailed(f"{by.name} lacks the permission {PERMISSION}")
    if len(reason.strip()) < SHORTEST_REASON or text_error(reason, REASON_LIMIT):
        raise ArchivingFailed(f"the reason must be plain text of {SHORTEST_REASON} to {REASON_LIMIT} characters")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with files.hold_lock(folder / ".lock"):
            while (due := find_due_events(older_than)).events:
                yield _archive_batch(due.first, min(due.last, due.first + limit - 1), folder, by, reason)
    except BlockingIOError:
        raise ArchivingFailed(f"another process is archiving to {folder}") from None


def _archive_batch(first: int, last: int, folder: Path, by: Actor, reason: str) -> ArchivedRange:
    # The file contains only the bodies. Columns that differ from them are evidence of tampering, and would be lost.
    if finding := integrity.find_mismatched_columns(first, last):
        raise ArchivingFailed(f"the database does not verify: {finding}")
    root = compute_root_at(last)
    path = get_archive_path(folder, first, last, root)
    summary = _write_and_verify(path, first, last)
    record = ArchivedRange(
        first_position=first,
        last_position=last,
        file=path.name,
        sha256=sha256(path),
        root=encode(root),
        until=summary.until,
        anchors=digest_anchors(summary.last_events.values()),
        transitions=[[*key, count] for key, count in sorted(summary.transitions.items())],
        forced=[[*key, count] for key, count in sorted(summary.overrides.items())],
        operator=by.name,
        reason=reason,
        archived_at=now(),
    )
    try:
        with transaction.atomic(durable=True):
            _save_record(record, summary, by)
            _delete_events(first, last)
    except IntegrityError as error:
        raise ArchivingFailed(f"the database refuses the change: {str(error).splitlines()[0]}") from error
    return record


def get_archive_path(folder: Path, first: int, last: int, root: bytes) -> Path:
    """The name contains the root of the tree, so that the file of another history is never overwritten."""
    return folder / f"events-{first:012d}-{last:012d}-{root.hex()[:12]}.jsonl.gz"


def _write_and_verify(path: Path, first: int, last: int) -> ArchiveSummary:
    """Writes the file and reads it back. Uses an existing valid file, which a killed process has left."""
    existed = path.exists()
    if not existed:
        _write_events(path, first, last)
    _sync_folder(path.parent)
    try:
        return read_archive(path, first, read_leaves(first, last))
    except InvalidArchive as error:
        if existed:
            raise ArchivingFailed(f"{path} exists but is invalid, move it away: {error}") from None
        path.unlink()
        raise ArchivingFailed(f"the database does not verify: {error}") from None


def _write_events(path: Path, first: int, last: int) -> None:
    """Writes a temporary file, and renames it when its contents are on disk."""
    part = path.with_suffix(".part")
    with part.open("wb") as raw:
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=6) as file:
            for line in _format_events(first, last):
                file.write(line)
        raw.flush()
        os.fsync(raw.fileno())
        # Drops the pages from the cache, so that the verification reads the disk.
        os.posix_fadvise(raw.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    part.rename(path)


def _format_events(first: int, last: int) -> Iterator[bytes]:
    for start in range(first, last + 1, PAGE):
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT p.position, e.body, e.hash FROM {POSITIONS} AS p JOIN {EVENTS} AS e "
                f"ON e.event_id = p.event_id WHERE p.position BETWEEN %s AND %s ORDER BY p.position",
                [start, min(last, start + PAGE - 1)],
            )
            for position, body, hash_ in cursor.fetchall():
                event = {"position": position, "body": body, "hash": hash_}
                yield orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)


def _sync_folder(folder: Path) -> None:
    """Makes the names of new files survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _save_record(record: ArchivedRange, summary: ArchiveSummary, by: Actor) -> None:
    previous = get_latest_archived_range()
    if record.first_position != (previous.last_position + 1 if previous else 1):
        raise ArchivingFailed("another process has archived these events")
    record.prev_hash = previous.hash if previous else GENESIS
    record.hash = record.digest()
    with allow_writes(connection):
        record.save(force_insert=True)
        rows = map(partial(_build_anchor_row, record), summary.last_events.values())
        insert_rows(ANCHORS, [*AnchorValues._fields, Anchor._meta.get_field("archived_range").column], rows)
    facts = {"file": record.file, "sha256": record.sha256, "reason": record.reason}
    audit_note.note(audit_note.Kind.ARCHIVED, actor=by, entity_type="", entity_id="", detail=str(record), facts=facts)


def _build_anchor_row(record: ArchivedRange, anchor: AnchorValues) -> list[Any]:
    stored = {**anchor._asdict(), "at": connection.ops.adapt_datetimefield_value(anchor.at)}
    return [*stored.values(), record.pk]


def _delete_events(first: int, last: int) -> None:
    """Deletes the events of a range. No other code deletes events; the triggers allow it in this write guard only."""
    count = last - first + 1
    in_range = f"position BETWEEN {first:d} AND {last:d}"
    with allow_writes(connection, RETENTION), connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {EVENTS} WHERE event_id IN (SELECT event_id FROM {POSITIONS} WHERE {in_range})")
        events = cursor.rowcount
        cursor.execute(f"DELETE FROM {POSITIONS} WHERE {in_range}")
        if (events, cursor.rowcount) != (count, count):
            raise ArchivingFailed(f"{count} events expected, but found {events} events and {cursor.rowcount} positions")
