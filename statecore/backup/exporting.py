"""Writes an export: compressed lines, a manifest, and the whole folder at once or not at all."""

from __future__ import annotations

import gzip
import math
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import structlog
from django.db import connection

from ..kernel import file_lock
from ..kernel.clock import now, rfc3339
from ..kernel.file_hash import sha256
from ..kernel.one_moment import one_moment
from ..records import Position, Seal, commit_order
from ..records.commit_order import EVENTS, POSITIONS
from ..records.position import Numbering
from ..records.retirement import horizon
from . import tables
from .manifest import FORMAT, Manifest, exports
from .manifest import NAME as MANIFEST

log = structlog.get_logger(__name__)

CHUNK = 5_000


def export(to: Path, *, everything: bool = False) -> Path:
    """The events since the last export of this history in that folder, or all here; every table. Its own folder."""
    to.mkdir(parents=True, exist_ok=True)
    # Two at once would both follow the same export; the second waits.
    with file_lock.held(to / ".lock", wait=math.inf):
        made_at = now()
        folder = to / f"export-{made_at:%Y%m%dT%H%M%S%fZ}"
        part = folder.with_suffix(".part")
        part.mkdir(mode=0o700)
        try:
            with one_moment():
                previous = None if everything else _newest_of_this_history(to)
                _write(part, previous, rfc3339(made_at))
            part.rename(folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    return folder


def _newest_of_this_history(to: Path) -> Path | None:
    """After a restore to an older moment the newer exports tell what did not happen here, and nothing follows them."""
    for folder in reversed(exports(to)):
        try:
            manifest = Manifest.read(folder)
        except (OSError, TypeError, ValueError) as error:  # one that was damaged must not be the end of all exports
            log.error("export_not_readable", folder=folder.name, error=str(error))
            continue
        # What ends before the horizon cannot be gone on from: what follows it is not here.
        if manifest.last_position >= horizon() and _hash_at(manifest.last_position) == manifest.last_hash:
            return folder
    return None


def _hash_at(position: int) -> str:
    found = Position.objects.filter(position=position).values_list("event__hash", flat=True).first()
    return str(found) if found else ""


def _write(folder: Path, previous: Path | None, made_at: str) -> None:
    standing = Numbering.objects.first() or Numbering()
    retired = horizon()
    after = Manifest.read(previous).last_position if previous else retired
    new = commit_order.unnumbered(standing.seen)
    seal = Seal.objects.order_by("-last_position").first()
    counts = {"events.jsonl.gz": _lines(folder / "events.jsonl.gz", _events(after))}
    # Rows may be ahead of the numbering, so their events must come along.
    waiting = f"FROM {EVENTS} AS e WHERE {new.condition} ORDER BY {commit_order.order()}"
    counts["waiting.jsonl.gz"] = _lines(
        folder / "waiting.jsonl.gz", _told(f"SELECT NULL, {BYTES} {waiting}", new.params)
    )
    for model in tables.tables():
        name = f"{model._meta.db_table}.jsonl.gz"
        counts[name] = _lines(folder / name, tables.rows(model))
    last = after + counts["events.jsonl.gz"]
    Manifest(
        format=FORMAT,
        made_at=made_at,
        first_position=after + 1,
        last_position=last,
        events=counts["events.jsonl.gz"],
        waiting=counts["waiting.jsonl.gz"],
        seal=seal.hash if seal else None,
        previous=previous.name if previous else None,
        previous_sha256=sha256(previous / MANIFEST) if previous else None,
        files={name: {"rows": count, "sha256": sha256(folder / name)} for name, count in counts.items()},
        last_hash=_hash_at(last),
        retired=retired,
    ).write(folder)


BYTES = "e.body, e.hash"


def _events(after: int) -> Iterator[dict[str, Any]]:
    """Page by page: the moment is the same for all of them."""
    query = (
        f"SELECT p.position, {BYTES} FROM {POSITIONS} AS p JOIN {EVENTS} AS e ON e.event_id = p.event_id "
        f"WHERE p.position > %s AND p.position <= %s ORDER BY p.position"
    )
    while page := list(_told(query, [after, after + CHUNK])):
        yield from page
        after += CHUNK


def _told(query: str, params: list[Any]) -> Iterator[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(query, params)
        for position, body, hash_ in cursor.fetchall():
            yield {"position": position, "body": body, "hash": hash_}


def _lines(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    count = 0
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, compresslevel=6) as file:
        for count, row in enumerate(rows, 1):  # noqa: B007 - the last number is the count
            file.write(orjson.dumps(row, default=str, option=orjson.OPT_APPEND_NEWLINE))
    return count
