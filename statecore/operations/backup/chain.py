"""Reads a chain of exports: the one to restore, and those that it continues."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from django.conf import settings

from ...storage.files import sha256
from . import tables
from .encryption import Key, open_to_read
from .manifest import (
    ENCRYPTED_FORMAT,
    EVENTS_FILE,
    FORMAT,
    MANIFEST_FILE,
    Manifest,
    list_exports,
)


class RestoreFailed(Exception):
    """The export does not verify, the database is not empty, or processes use it. Nothing was changed."""


class Export(NamedTuple):
    folder: Path
    manifest: Manifest
    # None if the export is not encrypted, and then has no accounts.
    key: Key | None

    def read_lines(self, name: str) -> Iterator[dict[str, Any]]:
        with open_to_read(self.folder / name, self.key) as file, gzip.open(file, "rb") as lines:
            for line in lines:
                yield orjson.loads(line)

    def read_events(self, archived: int) -> Iterator[dict[str, Any]]:
        """Yields the events, except those that were archived before the newest export."""
        return (line for line in self.read_lines(EVENTS_FILE) if line["position"] > archived)

    def list_tables(self) -> list[tables.Model]:
        return tables.list_tables(accounts=self.key is not None)


def read_chain(source: Path) -> list[Export]:
    """Returns the exports oldest first, without a gap after the archived events or, if there are none, position 1."""
    newest = source if (source / MANIFEST_FILE).exists() else next(iter(list_exports(source)[::-1]), None)
    if newest is None:
        raise RestoreFailed(f"there is no export in {source}")
    chain = [_open(newest)]
    while (manifest := chain[0].manifest).previous:
        folder = newest.parent / manifest.previous
        if not (folder / MANIFEST_FILE).exists():
            raise RestoreFailed(f"{chain[0].folder.name} continues {manifest.previous}, which is missing")
        if sha256(folder / MANIFEST_FILE) != manifest.previous_sha256:
            raise RestoreFailed(f"the manifest of {folder.name} was changed")
        chain.insert(0, _open(folder))
        if chain[0].manifest.last_position + 1 != manifest.first_position:
            raise RestoreFailed(f"{folder.name} does not end where {chain[1].folder.name} begins")
    archived = chain[-1].manifest.archived
    if chain[0].manifest.first_position > archived + 1:
        first = (
            f"the first event after the archived ones, at position {archived + 1}" if archived else "the first event"
        )
        raise RestoreFailed(f"{chain[0].folder.name} does not begin with {first}")
    return chain


def _open(folder: Path) -> Export:
    try:
        manifest = Manifest.read(folder)
    except (OSError, TypeError, orjson.JSONDecodeError):
        raise RestoreFailed(f"the manifest of {folder.name} is unreadable") from None
    if manifest.format not in (FORMAT, ENCRYPTED_FORMAT):
        formats = f"{FORMAT} and {ENCRYPTED_FORMAT}"
        raise RestoreFailed(f"{folder.name} has format {manifest.format}, but only the formats {formats} are supported")
    return Export(folder, manifest, manifest.open(settings.STATECORE_BACKUP_PASSPHRASE))


def check_files(export: Export) -> None:
    for name, facts in export.manifest.files.items():
        if not (export.folder / name).exists():
            raise RestoreFailed(f"{export.folder.name}/{name} is missing")
        if sha256(export.folder / name) != facts["sha256"]:
            raise RestoreFailed(f"{export.folder.name}/{name} does not match its hash in the manifest")
