"""Loads a chain of exports into an empty database, and commits only if everything verifies."""

from __future__ import annotations

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
from ...kernel.clock import now
from ...records import Token, process_report
from ...storage import triggers
from ...transitions import amend
from ...transitions.unit_of_work import UnitOfWork, run_in_transaction
from .. import integrity
from . import tables
from .chain import Export, RestoreFailed, check_files, read_chain
from .encryption import CannotOpen
from .manifest import WAITING_FILE, Manifest

POSITION_COLUMNS = ["position", "event_id", "entity_type", "kind", "severity", "actor", "run_id"]
# Raised by lines and manifests with correct hashes but an unexpected structure.
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, OSError, EOFError, zlib.error, ValidationError)


def restore(source: Path, archives: Path | None = None, epoch: int = 0) -> Manifest:
    """Restores an export, or the newest export in a folder, with the exports that it continues, and starts an epoch.

    Events that were archived when the export was made are not loaded: they stay in their files, which are verified too
    if `archives` names their folder. The new epoch has at least the number `epoch`.
    """
    try:
        return _restore(source, archives, epoch)
    except CannotOpen as reason:
        raise RestoreFailed(f"the export {reason}") from None
    except MALFORMED as error:
        raise RestoreFailed(f"the export is malformed: {type(error).__name__}: {error}") from error


def _restore(source: Path, archives: Path | None, epoch: int) -> Manifest:
    chain = read_chain(source)
    newest = chain[-1]
    for export in chain:
        check_files(export)
    _check_applications(newest)
    _check_database(newest)
    try:
        with set_aside() as aside, transaction.atomic():
            # After an error the rollback restores the triggers; `triggers.disabled()` would install them a second time.
            triggers.remove(connection)
            _load(chain)
            triggers.install(connection)
            _verify(newest.manifest, archives)
            run_in_transaction(_release_from_lost_tokens)
            _start_epoch(newest.manifest, epoch, aside)
            _check_processes()  # again: one that was started meanwhile has seen the empty database
    except (IntegrityError, DataError) as error:
        raise RestoreFailed(f"the database refuses a row: {str(error).splitlines()[0]}") from error
    return newest.manifest


def _check_applications(export: Export) -> None:
    """Refuses an export with machines or other data of applications that are not installed here."""
    known = {f"{model._meta.db_table}.jsonl.gz" for model in tables.list_tables(accounts=True)}
    for name, facts in export.manifest.files.items():
        table = name.removesuffix(".jsonl.gz")
        is_ours = name in known or table == name or table in ("events", "waiting") or table.startswith("statecore_")
        if not is_ours and facts["rows"]:
            raise RestoreFailed(
                f"the export has {facts['rows']} rows of {table}: install the application they belong to"
            )


def _check_database(export: Export) -> None:
    _check_processes()
    if filled := tables.find_filled([Event, *export.list_tables()]):
        raise RestoreFailed(f"the database is not empty: {filled._meta.db_table} has rows")


def _check_processes() -> None:
    at = now()
    if running := [str(each) for each in process_report.list_processes() if not each.is_silent(at)]:
        seconds = process_report.SILENT_AFTER.total_seconds()
        raise RestoreFailed(
            f"the installation is running: stop {', '.join(running)} (a killed process counts for {seconds:.0f} s)"
        )


def _load(chain: list[Export]) -> None:
    newest, manifest = chain[-1], chain[-1].manifest
    for export in chain:
        _load_events(export.read_events(manifest.archived))
        positions = map(_build_position_row, export.read_events(manifest.archived))
        tables.insert_rows(Position._meta.db_table, POSITION_COLUMNS, positions)
    # Only those of the newest export: events that waited in an older one have their position in a later one.
    _load_events(newest.read_lines(WAITING_FILE))
    tables.empty_filled_by_migrate(newest.list_tables())
    for model in newest.list_tables():
        name = f"{model._meta.db_table}.jsonl.gz"
        if name in manifest.files:
            tables.load_rows(model, newest.read_lines(name))
    tables.reset_sequences(newest.list_tables())
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
