"""Loads a chain of exports into an empty database and keeps it only if everything verifies."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from django.core.exceptions import ValidationError
from django.db import DataError, IntegrityError, connection, transaction

from .. import integrity
from ..journal import COLUMNS, MIRRORED, Event, digest
from ..kernel import registry, triggers
from ..kernel.file_hash import sha256
from ..records import Numbering, Position, Seal, commit_order
from ..records.retirement import horizon
from . import tables
from .manifest import FORMAT, Manifest, exports
from .manifest import NAME as MANIFEST

PLACED = ["position", "event_id", "entity_type", "kind", "severity", "actor", "run_id"]


class CannotRestore(Exception):
    """An export that does not verify, or a database that is not empty; nothing was changed."""


# What comes of lines and manifests that have another shape than ours, though their hashes are right.
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, OSError, EOFError, zlib.error, ValidationError)


def restore(given: Path, archives: Path | None = None) -> Manifest:
    """From an export and those it follows, or the newest in a folder; given a folder of retired files, with those.

    The database is what it was when the export was made: what had been retired by then stays in its files.
    """
    try:
        return _restore(given, archives)
    except MALFORMED as error:
        raise CannotRestore(f"the export is malformed: {type(error).__name__}: {error}") from error


def _restore(given: Path, archives: Path | None) -> Manifest:
    chain = _chain(given)
    for folder, manifest in chain:
        _check_files(folder, manifest)
    if Event.objects.exists() or any(flow.model.objects.exists() for flow in registry.flows()):
        raise CannotRestore("the database is not empty")
    try:
        with transaction.atomic():
            # Not lowered(): what fails is rolled back, and the triggers with it.
            triggers.remove(connection)
            _load(chain)
            triggers.install(connection)
            _verify(chain[-1][1], archives)
    except (IntegrityError, DataError) as error:
        raise CannotRestore(f"the database refuses a row: {str(error).splitlines()[0]}") from error
    return chain[-1][1]


def _chain(given: Path) -> list[tuple[Path, Manifest]]:
    """Oldest first, each following the one before it, the first from position 1 or what was retired by the end."""
    newest = given if (given / MANIFEST).exists() else next(iter(exports(given)[::-1]), None)
    if newest is None:
        raise CannotRestore(f"there is no export in {given}")
    chain = [(newest, _manifest(newest))]
    while (before := chain[0][1]).previous:
        folder = newest.parent / before.previous
        if not (folder / MANIFEST).exists():
            raise CannotRestore(f"{chain[0][0].name} follows {before.previous}, which is not there")
        if sha256(folder / MANIFEST) != before.previous_sha256:
            raise CannotRestore(f"the manifest of {folder.name} was changed")
        chain.insert(0, (folder, _manifest(folder)))
        if chain[0][1].last_position + 1 != before.first_position:
            raise CannotRestore(f"{folder.name} does not end where {chain[1][0].name} begins")
    retired = chain[-1][1].retired
    if chain[0][1].first_position > retired + 1:
        told = f"the first after the retired, at position {retired + 1}" if retired else "the first event"
        raise CannotRestore(f"{chain[0][0].name} does not begin with {told}")
    return chain


def _manifest(folder: Path) -> Manifest:
    try:
        manifest = Manifest.read(folder)
    except (OSError, TypeError, orjson.JSONDecodeError):
        raise CannotRestore(f"the manifest of {folder.name} cannot be read") from None
    if manifest.format != FORMAT:
        raise CannotRestore(f"{folder.name} has format {manifest.format}, and {FORMAT} is understood")
    return manifest


def _check_files(folder: Path, manifest: Manifest) -> None:
    for name, facts in manifest.files.items():
        if not (folder / name).exists():
            raise CannotRestore(f"{folder.name}/{name} is missing")
        if sha256(folder / name) != facts["sha256"]:
            raise CannotRestore(f"{folder.name}/{name} is not what its manifest says")


def _load(chain: list[tuple[Path, Manifest]]) -> None:
    newest, manifest = chain[-1]
    for folder, _its in chain:
        tables.insert(Event._meta.db_table, list(COLUMNS), map(_event, _kept(folder, manifest.retired)))
        tables.insert(Position._meta.db_table, PLACED, map(_place, _kept(folder, manifest.retired)))
    # Those that waited for a position when an older export was made have theirs in a later one.
    tables.insert(Event._meta.db_table, list(COLUMNS), map(_event, _lines(newest / "waiting.jsonl.gz")))
    for model in tables.tables():
        name = f"{model._meta.db_table}.jsonl.gz"
        if name in manifest.files:
            tables.load(model, _lines(newest / name))
    tables.continue_numbering()
    # Without a mark: the sequencer numbers whatever has no position. This server has counted their transactions.
    standing = {"head": manifest.last_position, "seen": "", "cluster": commit_order.cluster()}
    Numbering.objects.update_or_create(pk=1, defaults=standing)


def _kept(folder: Path, retired: int) -> Iterator[dict[str, Any]]:
    """An older export may still hold what was retired after it."""
    return (line for line in _lines(folder / "events.jsonl.gz") if line["position"] > retired)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rb") as file:
        for line in file:
            yield orjson.loads(line)


def _event(line: dict[str, Any]) -> list[Any]:
    """The columns are in the canonical bytes, and are read from nowhere else."""
    if digest(line["body"]) != line["hash"]:
        raise CannotRestore(f"the event at position {line['position']} does not hash to its hash")
    members = orjson.loads(line["body"])
    moment = datetime.fromisoformat(members["timestamp"])
    members["timestamp"] = connection.ops.adapt_datetimefield_value(moment)
    return [*(members[name] for name in MIRRORED), line["body"], line["hash"]]


def _place(line: dict[str, Any]) -> list[Any]:
    members = orjson.loads(line["body"])
    run_id = members["details"]["context"].get("run_id", "")
    return [line["position"], *(members[name] for name in PLACED[1:-1]), run_id]


def _verify(manifest: Manifest, archives: Path | None) -> None:
    if horizon() != manifest.retired:
        raise CannotRestore(f"its tables say that {horizon()} positions were retired, its manifest {manifest.retired}")
    errors = [finding for finding in integrity.check_all(archives) if finding.severity == integrity.ERROR]
    if errors:
        raise CannotRestore(f"what was restored does not verify ({len(errors)} errors, the first: {errors[0]})")
    if Event.objects.count() != manifest.last_position - manifest.retired + manifest.waiting:
        raise CannotRestore("the number of events is not what the manifest says")
    seal = Seal.objects.order_by("-last_position").first()
    if (seal.hash if seal else None) != manifest.seal:
        raise CannotRestore("the last seal is not the one the manifest names")
