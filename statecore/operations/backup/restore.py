"""Loads a chain of exports into an empty database, and commits only if everything verifies."""

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

from statecore_client.transparency.checkpoint import Checkpoint
from statecore_client.transparency.notes import Note, encode

from ...delivery.sinks.alerts import open_epoch_alert
from ...journal import COLUMNS, MIRRORED, Event, Numbering, Position, commit_order, digest
from ...journal.archive import get_last_archived_position
from ...journal.epochs import Reason, start_epoch
from ...journal.home_files import AsideFiles, set_aside
from ...journal.lost_positions import HistoryDiffers, read_losses
from ...journal.tree import compute_root_at
from ...kernel import registry
from ...kernel.actors import THE_SYSTEM
from ...records import Token
from ...storage import triggers
from ...storage.files import sha256
from ...transitions import amend
from ...transitions.unit_of_work import UnitOfWork, run_in_transaction
from .. import integrity
from . import tables
from .manifest import EVENTS_FILE, FORMAT, MANIFEST_FILE, WAITING_FILE, Manifest, list_exports

POSITION_COLUMNS = ["position", "event_id", "entity_type", "kind", "severity", "actor", "run_id"]
# Raised by lines and manifests with correct hashes but an unexpected structure.
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, OSError, EOFError, zlib.error, ValidationError)


class RestoreFailed(Exception):
    """The export does not verify, or the database is not empty. Nothing was changed."""


def restore(source: Path, archives: Path | None = None, epoch: int = 0) -> Manifest:
    """Restores an export, or the newest export in a folder, with the exports that it continues, and starts an epoch.

    Events that were archived when the export was made are not loaded: they stay in their files, which are verified too
    if `archives` names their folder. The new epoch has at least the number `epoch`.
    """
    try:
        return _restore(source, archives, epoch)
    except MALFORMED as error:
        raise RestoreFailed(f"the export is malformed: {type(error).__name__}: {error}") from error


def _restore(source: Path, archives: Path | None, epoch: int) -> Manifest:
    chain = _read_chain(source)
    for folder, manifest in chain:
        _check_files(folder, manifest)
    if Event.objects.exists() or any(flow.model.objects.exists() for flow in registry.flows()):
        raise RestoreFailed("the database is not empty")
    try:
        with set_aside() as aside, transaction.atomic():
            # After an error the rollback restores the triggers; `triggers.disabled()` would install them a second time.
            triggers.remove(connection)
            _load(chain)
            triggers.install(connection)
            _verify(chain[-1][1], archives)
            run_in_transaction(_release_from_lost_tokens)
            _start_epoch(chain[-1][1], epoch, aside)
    except (IntegrityError, DataError) as error:
        raise RestoreFailed(f"the database refuses a row: {str(error).splitlines()[0]}") from error
    return chain[-1][1]


def _read_chain(source: Path) -> list[tuple[Path, Manifest]]:
    """Returns the exports oldest first, without a gap after the archived events or, if there are none, position 1."""
    newest = source if (source / MANIFEST_FILE).exists() else next(iter(list_exports(source)[::-1]), None)
    if newest is None:
        raise RestoreFailed(f"there is no export in {source}")
    chain = [(newest, _read_manifest(newest))]
    while (manifest := chain[0][1]).previous:
        folder = newest.parent / manifest.previous
        if not (folder / MANIFEST_FILE).exists():
            raise RestoreFailed(f"{chain[0][0].name} continues {manifest.previous}, which is missing")
        if sha256(folder / MANIFEST_FILE) != manifest.previous_sha256:
            raise RestoreFailed(f"the manifest of {folder.name} was changed")
        chain.insert(0, (folder, _read_manifest(folder)))
        if chain[0][1].last_position + 1 != manifest.first_position:
            raise RestoreFailed(f"{folder.name} does not end where {chain[1][0].name} begins")
    archived = chain[-1][1].archived
    if chain[0][1].first_position > archived + 1:
        first = (
            f"the first event after the archived ones, at position {archived + 1}" if archived else "the first event"
        )
        raise RestoreFailed(f"{chain[0][0].name} does not begin with {first}")
    return chain


def _read_manifest(folder: Path) -> Manifest:
    try:
        manifest = Manifest.read(folder)
    except (OSError, TypeError, orjson.JSONDecodeError):
        raise RestoreFailed(f"the manifest of {folder.name} is unreadable") from None
    if manifest.format != FORMAT:
        raise RestoreFailed(f"{folder.name} has format {manifest.format}, but only format {FORMAT} is supported")
    return manifest


def _check_files(folder: Path, manifest: Manifest) -> None:
    for name, facts in manifest.files.items():
        if not (folder / name).exists():
            raise RestoreFailed(f"{folder.name}/{name} is missing")
        if sha256(folder / name) != facts["sha256"]:
            raise RestoreFailed(f"{folder.name}/{name} does not match its hash in the manifest")


def _load(chain: list[tuple[Path, Manifest]]) -> None:
    newest, manifest = chain[-1]
    for folder, _manifest in chain:
        _load_events(_read_remaining_events(folder, manifest.archived))
        positions = map(_build_position_row, _read_remaining_events(folder, manifest.archived))
        tables.insert_rows(Position._meta.db_table, POSITION_COLUMNS, positions)
    # Only those of the newest export: events that waited in an older one have their position in a later one.
    _load_events(_read_lines(newest / WAITING_FILE))
    for model in tables.list_tables():
        name = f"{model._meta.db_table}.jsonl.gz"
        if name in manifest.files:
            tables.load_rows(model, _read_lines(newest / name))
    tables.reset_sequences()
    # `seen` is empty, so that the sequencer numbers every event without a position. The loaded events have
    # transaction ids of this server, hence its `cluster`.
    numbering = {
        "head": manifest.last_position,
        "seen": "",
        "cluster": commit_order.get_server_identifier(),
        "epoch": manifest.epoch,
    }
    Numbering.objects.update_or_create(pk=1, defaults=numbering)


def _start_epoch(manifest: Manifest, wanted: int, aside: AsideFiles) -> None:
    """Starts an epoch, because events after the export are lost; the journal file of this host may have them."""
    number = max(wanted, manifest.epoch + 1, _read_epoch(aside.checkpoint) + 1)
    try:
        losses = read_losses(aside.journal, manifest.last_position) if aside.journal else None
    except HistoryDiffers:  # the journal file is of another installation
        losses = None
    timeline = commit_order.read_server_identity().timeline
    open_epoch_alert(start_epoch(number, Reason.RESTORE, losses, timeline=timeline))


def _read_epoch(checkpoint: Path | None) -> int:
    """Returns the epoch of a checkpoint; 0 without a readable one. A higher number than needed does no harm."""
    try:
        return Checkpoint.parse(Note.parse(checkpoint.read_text("utf-8")).text).epoch if checkpoint else 0
    except (OSError, ValueError):
        return 0


def _release_from_lost_tokens(work: UnitOfWork) -> None:
    """Frees what tokens held that do not exist here: agents get new tokens, and the first report takes it again."""
    existing = [f"token:{prefix}" for prefix in Token.objects.values_list("prefix", flat=True)]
    for flow in registry.flows():
        lost = flow.model.objects.filter(holder__startswith="token:").exclude(holder__in=existing)
        for entity in work.lock_many(flow.model, list(lost.values_list("pk", flat=True))):
            amend(work, entity, {"holder": ""}, actor=THE_SYSTEM, reason="its token was not restored")


def _load_events(lines: Iterator[dict[str, Any]]) -> None:
    tables.insert_rows(Event._meta.db_table, list(COLUMNS), map(_build_event_row, lines))


def _read_remaining_events(folder: Path, archived: int) -> Iterator[dict[str, Any]]:
    """Yields the events of an export, except those that were archived before the newest export."""
    return (line for line in _read_lines(folder / EVENTS_FILE) if line["position"] > archived)


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rb") as file:
        for line in file:
            yield orjson.loads(line)


def _build_event_row(line: dict[str, Any]) -> list[Any]:
    """Returns the columns of an event, taken from its body; raises RestoreFailed if the body has another hash."""
    if digest(line["body"]) != line["hash"]:
        raise RestoreFailed(f"the event at position {line['position']} does not match its hash")
    members = orjson.loads(line["body"])
    at = datetime.fromisoformat(members["timestamp"])
    members["timestamp"] = connection.ops.adapt_datetimefield_value(at)
    return [*(members[name] for name in MIRRORED), line["body"], line["hash"]]


def _build_position_row(line: dict[str, Any]) -> list[Any]:
    members = orjson.loads(line["body"])
    run_id = members["details"]["context"].get("run_id", "")
    return [line["position"], *(members[name] for name in POSITION_COLUMNS[1:-1]), run_id]


def _verify(manifest: Manifest, archives: Path | None) -> None:
    archived = get_last_archived_position()
    if archived != manifest.archived:
        raise RestoreFailed(f"the last archived position is {archived}, but {manifest.archived} in the manifest")
    errors = integrity.select_database_errors(integrity.check_all(archives))
    if errors:
        raise RestoreFailed(f"the restored data does not verify ({len(errors)} errors, the first: {errors[0]})")
    if Event.objects.count() != manifest.last_position - manifest.archived + manifest.waiting:
        raise RestoreFailed("the number of events differs from the manifest")
    if manifest.root and encode(compute_root_at(manifest.tree_size)) != manifest.root:
        raise RestoreFailed("the tree differs from the manifest")
