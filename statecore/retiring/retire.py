"""Retires stride by stride: a file, verified as it lies on the disk, then one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from django.db import IntegrityError, connection, transaction

from .. import integrity
from ..backup.tables import insert
from ..door.change import REASON_LIMIT
from ..door.override import SHORTEST_REASON
from ..integrity.retired_file import Contents, NotAsSealed, contents
from ..journal import GENESIS
from ..kernel import file_lock
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.file_hash import sha256
from ..kernel.latch import RETIRING, opened
from ..kernel.plain import text_complaint
from ..records import Anchor, Retirement, Seal, audit_note
from ..records.commit_order import EVENTS, POSITIONS
from ..records.retirement import PERMISSION, Anchored, digest_of, latest
from .due import STRIDE, next_stride
from .writing import path_of, sync, write

ANCHORS = Anchor._meta.db_table


class CannotRetire(Exception):
    """Why it stops; what was retired before is retired, and nothing else is touched."""


def retire(older_than: datetime, folder: Path, *, by: Actor, reason: str, most: int = STRIDE) -> Iterator[Retirement]:
    """Everything that is due, one record after the other as they are made."""
    if not by.holds(PERMISSION):
        raise CannotRetire(f"{by.name} lacks the permission {PERMISSION}")
    if len(reason.strip()) < SHORTEST_REASON or text_complaint(reason, REASON_LIMIT):
        raise CannotRetire(f"a reason has from {SHORTEST_REASON} to {REASON_LIMIT} characters, and is plain text")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with file_lock.held(folder / ".lock"):
            while seals := next_stride(older_than, most):
                yield _stride(seals, folder, by, reason)
    except BlockingIOError:
        raise CannotRetire(f"somebody else is at it in {folder}") from None


def _stride(seals: list[Seal], folder: Path, by: Actor, reason: str) -> Retirement:
    first, last = seals[0].first_position, seals[-1].last_position
    # A file holds the bytes alone: what the columns say besides would be lost, and with it the evidence.
    if lie := integrity.columns_that_lie(first, last):
        raise CannotRetire(f"what is in the database does not verify: {lie}")
    path = path_of(folder, seals)
    found = _filed(path, seals)
    record = _record(seals, path, found)
    record.operator, record.reason, record.retired_at = by.name, reason, now()
    try:
        with transaction.atomic(durable=True):
            _keep(record, found, by)
            _delete(first, last)
    except IntegrityError as error:
        raise CannotRetire(f"the database refuses it: {str(error).splitlines()[0]}") from error
    return record


def _filed(path: Path, seals: list[Seal]) -> Contents:
    """What the file comes to, as it is read back; one that is there already was left by somebody who was killed."""
    was_there = path.exists()
    if not was_there:
        write(path, seals[0].first_position, seals[-1].last_position)
    sync(path.parent)
    try:
        return contents(path, seals)
    except NotAsSealed as error:
        if was_there:
            raise CannotRetire(f"{path} is not what it should be, move it away: {error}") from None
        path.unlink()
        raise CannotRetire(f"what is in the database does not verify: {error}") from None


def _record(seals: list[Seal], path: Path, found: Contents) -> Retirement:
    return Retirement(
        first_position=seals[0].first_position,
        last_position=seals[-1].last_position,
        file=path.name,
        sha256=sha256(path),
        seal=seals[-1].hash,
        until=found.until,
        anchors=digest_of(found.last.values()),
        moves=[[*key, count] for key, count in sorted(found.moves.items())],
        forced=[[*key, count] for key, count in sorted(found.forced.items())],
    )


def _keep(record: Retirement, found: Contents, by: Actor) -> None:
    before = latest()
    if record.first_position != (before.last_position + 1 if before else 1):
        raise CannotRetire("somebody else has retired these events meanwhile")
    record.prev_hash = before.hash if before else GENESIS
    record.hash = record.digest()
    with opened(connection):
        record.save(force_insert=True)
        insert(ANCHORS, [*Anchored._fields, "retirement_id"], map(partial(_row, record), found.last.values()))
    facts = {"file": record.file, "sha256": record.sha256, "reason": record.reason}
    audit_note.note(audit_note.Kind.RETIRED, actor=by, entity_type="", entity_id="", detail=str(record), facts=facts)


def _row(record: Retirement, anchor: Anchored) -> list[Any]:
    stored = {**anchor._asdict(), "at": connection.ops.adapt_datetimefield_value(anchor.at)}
    return [*stored.values(), record.pk]


def _delete(first: int, last: int) -> None:
    """The one place where events are deleted; the triggers let it pass while this latch is open."""
    count = last - first + 1
    within = f"position BETWEEN {first:d} AND {last:d}"
    with opened(connection, RETIRING), connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {EVENTS} WHERE event_id IN (SELECT event_id FROM {POSITIONS} WHERE {within})")
        events = cursor.rowcount
        cursor.execute(f"DELETE FROM {POSITIONS} WHERE {within}")
        if (events, cursor.rowcount) != (count, count):
            raise CannotRetire(f"{events} events and {cursor.rowcount} positions were found where {count} should be")
