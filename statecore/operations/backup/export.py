"""Writes an export: a folder of compressed JSON lines with a manifest. An incomplete export leaves no folder.

With a passphrase it is encrypted and has the accounts, too.
"""

from __future__ import annotations

import gzip
import math
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import structlog
from django.conf import settings
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
from .encryption import CannotOpen, Key, open_to_write
from .manifest import (
    CHECKPOINT_FILE,
    ENCRYPTED_FORMAT,
    EVENTS_FILE,
    FORMAT,
    MANIFEST_FILE,
    WAITING_FILE,
    Manifest,
    list_exports,
)

log = structlog.get_logger(__name__)

PAGE = 5_000
SELECT_EVENTS = f"""
    SELECT p.position, e.body, e.hash FROM {POSITIONS} AS p JOIN {EVENTS} AS e ON e.event_id = p.event_id
    WHERE p.position > %s AND p.position <= %s ORDER BY p.position
"""


def export(to: Path, *, everything: bool = False, plain: bool = False) -> Path:
    """Writes an export to a new folder below `to`, and returns that folder.

    It contains the events since the previous export of this history in `to`, or all events with `everything`. `plain`
    leaves out the accounts and the encryption although there is a passphrase.
    """
    passphrase = "" if plain else settings.STATECORE_BACKUP_PASSPHRASE
    to.mkdir(parents=True, exist_ok=True)
    # Two concurrent exports would both continue the same export, so the second one waits.
    with files.hold_lock(to / ".lock", wait=math.inf):
        for left in to.glob("export-*.part"):  # by an export that was killed
            shutil.rmtree(left)
        made_at = now()
        folder = to / f"export-{made_at:%Y%m%dT%H%M%S%fZ}"
        part = folder.with_suffix(".part")
        part.mkdir(mode=0o700)
        try:
            with consistent_snapshot():
                previous, key = (None, None) if everything else _find_previous_export(to, passphrase)
                key = key or (Key.create(passphrase) if passphrase else None)
                _write_files(part, previous, rfc3339(made_at), key)
            part.rename(folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    return folder


def _find_previous_export(to: Path, passphrase: str) -> tuple[Path | None, Key | None]:
    """Returns the newest export of this history that is encrypted with the same passphrase or none, and its key.

    If the database was restored from an older export, newer exports contain events that it does not have.
    """
    for folder in reversed(list_exports(to)):
        try:
            manifest = Manifest.read(folder)
            key = manifest.open(passphrase)
        except (OSError, LookupError, TypeError, ValueError) as error:  # a damaged export must not prevent later ones
            log.error("export_not_readable", folder=folder.name, error=str(error))
            continue
        except CannotOpen as reason:
            log.info("export_not_continued", folder=folder.name, reason=str(reason))
            continue
        # An export that ends within the archived events cannot be continued: the next events are not in the database.
        if (
            bool(key) == bool(passphrase)
            and manifest.last_position >= get_last_archived_position()
            and _get_hash_at(manifest.last_position) == manifest.last_hash
        ):
            return folder, key
    return None, None


def _get_hash_at(position: int) -> str:
    found = Position.objects.filter(position=position).values_list("event__hash", flat=True).first()
    return str(found) if found else ""


def _write_files(folder: Path, previous: Path | None, made_at: str, key: Key | None) -> None:
    numbering = Numbering.objects.first() or Numbering()
    archived = get_last_archived_position()
    after = Manifest.read(previous).last_position if previous else archived
    tree = Frontier.load()
    counts = {
        EVENTS_FILE: _write_lines(folder / EVENTS_FILE, _read_events(after), key),
        # The rows already contain the changes of events that have no position yet.
        WAITING_FILE: _write_lines(folder / WAITING_FILE, _read_waiting_events(numbering), key),
    }
    for model in tables.list_tables(accounts=key is not None):
        name = f"{model._meta.db_table}.jsonl.gz"
        counts[name] = _write_lines(folder / name, tables.read_rows(model), key)
    if signed := latest_checkpoint():
        (folder / CHECKPOINT_FILE).write_text(signed.text, "utf-8")
        counts[CHECKPOINT_FILE] = 1
    last = after + counts[EVENTS_FILE]
    manifest = Manifest(
        format=ENCRYPTED_FORMAT if key else FORMAT,
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
        encryption=key.as_dict() if key else None,
    )
    (manifest.authenticated_by(key) if key else manifest).write(folder)


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


def _write_lines(path: Path, rows: Iterable[dict[str, Any]], key: Key | None) -> int:
    """Writes one JSON object per line, and returns the number of lines."""
    count = 0
    with open_to_write(path, key) as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, compresslevel=6) as file:
        for count, row in enumerate(rows, 1):  # noqa: B007 - the last number is the count
            file.write(orjson.dumps(row, default=_to_text, option=orjson.OPT_APPEND_NEWLINE))
    return count


def _to_text(value: Any) -> str:
    """Writes bytes as base64, which the fields of a restore read, and other values as their text."""
    return encode(bytes(value)) if isinstance(value, bytes | memoryview) else str(value)
