"""Writes an export: a folder of compressed JSON lines with a manifest. An incomplete export leaves no folder."""

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

from statecore_client.transparency.notes import encode

from ...journal import Position, commit_order
from ...journal.archive import get_last_archived_position
from ...journal.checkpoints import latest_checkpoint
from ...journal.commit_order import EVENTS, POSITIONS
from ...journal.position import Numbering
from ...journal.tree import Frontier
from ...kernel.clock import now, rfc3339
from ...storage import files
from ...storage.files import sha256
from ...storage.snapshot import consistent_snapshot
from . import tables
from .manifest import CHECKPOINT_FILE, EVENTS_FILE, FORMAT, MANIFEST_FILE, WAITING_FILE, Manifest, list_exports

log = structlog.get_logger(__name__)

PAGE = 5_000
SELECT_EVENTS = f"""
    SELECT p.position, e.body, e.hash FROM {POSITIONS} AS p JOIN {EVENTS} AS e ON e.event_id = p.event_id
    WHERE p.position > %s AND p.position <= %s ORDER BY p.position
"""


def export(to: Path, *, everything: bool = False) -> Path:
    """Writes an export to a new folder below `to`, and returns that folder.

    It contains the events since the previous export of this history in `to`, or all events with `everything`.
    """
    to.mkdir(parents=True, exist_ok=True)
    # Two concurrent exports would both continue the same export, so the second one waits.
    with files.hold_lock(to / ".lock", wait=math.inf):
        made_at = now()
        folder = to / f"export-{made_at:%Y%m%dT%H%M%S%fZ}"
        part = folder.with_suffix(".part")
        part.mkdir(mode=0o700)
        try:
            with consistent_snapshot():
                previous = None if everything else _find_previous_export(to)
                _write_files(part, previous, rfc3339(made_at))
            part.rename(folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    return folder


def _find_previous_export(to: Path) -> Path | None:
    """Returns the newest export of this history.

    If the database was restored from an older export, newer exports contain events that it does not have.
    """
    for folder in reversed(list_exports(to)):
        try:
            manifest = Manifest.read(folder)
        except (OSError, TypeError, ValueError) as error:  # one damaged export must not prevent all later ones
            log.error("export_not_readable", folder=folder.name, error=str(error))
            continue
        # An export that ends within the archived events cannot be continued: the next events are not in the database.
        if (
            manifest.last_position >= get_last_archived_position()
            and _get_hash_at(manifest.last_position) == manifest.last_hash
        ):
            return folder
    return None


def _get_hash_at(position: int) -> str:
    found = Position.objects.filter(position=position).values_list("event__hash", flat=True).first()
    return str(found) if found else ""


def _write_files(folder: Path, previous: Path | None, made_at: str) -> None:
    numbering = Numbering.objects.first() or Numbering()
    archived = get_last_archived_position()
    after = Manifest.read(previous).last_position if previous else archived
    tree = Frontier.load()
    counts = {
        EVENTS_FILE: _write_lines(folder / EVENTS_FILE, _read_events(after)),
        # The rows already contain the changes of events that have no position yet.
        WAITING_FILE: _write_lines(folder / WAITING_FILE, _read_waiting_events(numbering)),
    }
    for model in tables.list_tables():
        name = f"{model._meta.db_table}.jsonl.gz"
        counts[name] = _write_lines(folder / name, tables.read_rows(model))
    if signed := latest_checkpoint():
        (folder / CHECKPOINT_FILE).write_text(signed.text, "utf-8")
        counts[CHECKPOINT_FILE] = 1
    last = after + counts[EVENTS_FILE]
    Manifest(
        format=FORMAT,
        made_at=made_at,
        first_position=after + 1,
        last_position=last,
        events=counts[EVENTS_FILE],
        waiting=counts[WAITING_FILE],
        tree_size=tree.size,
        root=encode(tree.root()),
        previous=previous.name if previous else None,
        previous_sha256=sha256(previous / MANIFEST_FILE) if previous else None,
        files={name: {"rows": count, "sha256": sha256(folder / name)} for name, count in counts.items()},
        last_hash=_get_hash_at(last),
        archived=archived,
        epoch=numbering.epoch,
    ).write(folder)


def _read_events(after: int) -> Iterator[dict[str, Any]]:
    """Yields the events after a position, page by page; the surrounding snapshot keeps the pages consistent."""
    while page := list(_select_events(SELECT_EVENTS, [after, after + PAGE])):
        yield from page
        after += PAGE


def _read_waiting_events(numbering: Numbering) -> Iterator[dict[str, Any]]:
    new = commit_order.select_unnumbered(numbering.seen)
    order = commit_order.get_order_column()
    query = f"SELECT NULL, e.body, e.hash FROM {EVENTS} AS e WHERE {new.condition} ORDER BY {order}"
    return _select_events(query, new.params)


def _select_events(query: str, params: list[Any]) -> Iterator[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(query, params)
        for position, body, hash_ in cursor.fetchall():
            yield {"position": position, "body": body, "hash": hash_}


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Writes one JSON object per line, and returns the number of lines."""
    count = 0
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, compresslevel=6) as file:
        for count, row in enumerate(rows, 1):  # noqa: B007 - the last number is the count
            file.write(orjson.dumps(row, default=_to_text, option=orjson.OPT_APPEND_NEWLINE))
    return count


def _to_text(value: Any) -> str:
    """Writes bytes as base64, which the fields of a restore read, and other values as their text."""
    return encode(bytes(value)) if isinstance(value, bytes | memoryview) else str(value)
