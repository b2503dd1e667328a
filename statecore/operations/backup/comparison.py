"""Compares the journal with a file that an operator names: a checkpoint, an export or a file with events."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from statecore_client.transparency.evidence import GZIP_MAGIC
from statecore_client.transparency.notes import InvalidNote, VerifierKey

from ...journal.checkpoints import find_key
from ...storage.invalid_text import tolerate_invalid_text
from ..integrity import Finding, compare_checkpoint, compare_events
from .encryption import CannotOpen, open_to_read
from .manifest import CHECKPOINT_FILE, EVENTS_FILE, MANIFEST_FILE, Manifest, list_exports


class UnusableCopy(Exception):
    """The file is no copy of this journal. The message is a sentence."""


@tolerate_invalid_text()
def compare(path: Path, key: VerifierKey | None = None) -> list[Finding]:
    """Returns the first difference from each file.

    A folder is an export, compared together with those that it continues, or contains exports. Checkpoints must be
    signed with the key, by default that of this host. Raises UnusableCopy.
    """
    try:
        if path.is_dir():
            return list(_compare_export(path, key))
        return list(compare_events(path) if _contains_events(path) else _compare_checkpoint(path, key))
    except OSError as error:
        raise UnusableCopy(f"{error.filename} cannot be read: {error.strerror}.") from None


def _contains_events(path: Path) -> bool:
    with path.open("rb") as file:
        beginning = file.read(2)
    if not beginning:
        raise UnusableCopy(f"{path} is empty.")
    return beginning == GZIP_MAGIC or beginning.startswith(b"{")


def _compare_checkpoint(path: Path, key: VerifierKey | None) -> Iterator[Finding]:
    trusted = key or find_key()
    if trusted is None:
        raise UnusableCopy("This host does not know the key of the journal: name it with --key.")
    try:
        yield from compare_checkpoint(path, trusted)
    except InvalidNote as error:
        raise UnusableCopy(f"{path} is no checkpoint of this journal: {error}.") from None


def _compare_export(folder: Path, key: VerifierKey | None) -> Iterator[Finding]:
    chain = _list_chain(folder)
    for export in chain:
        if findings := list(compare_events(export / EVENTS_FILE, _read_encrypted(export))):
            yield from findings
            break
    if (chain[-1] / CHECKPOINT_FILE).exists():
        yield from _compare_checkpoint(chain[-1] / CHECKPOINT_FILE, key)


def _read_encrypted(export: Path) -> Iterator[bytes] | None:
    """Returns the lines of the events of an encrypted export, and None for another one."""
    try:
        key = Manifest.read(export).open(settings.STATECORE_BACKUP_PASSPHRASE)
    except CannotOpen as reason:
        raise UnusableCopy(f"{export.name} {reason}.") from None
    return iter(gzip.open(open_to_read(export / EVENTS_FILE, key), "rb")) if key else None


def _list_chain(folder: Path) -> list[Path]:
    """Returns the export and those that it continues, oldest first, as far as they are in the same folder."""
    newest = folder if (folder / MANIFEST_FILE).exists() else next(iter(list_exports(folder)[::-1]), None)
    if newest is None:
        raise UnusableCopy(f"There is no export in {folder}.")
    chain = [newest]
    try:
        while (previous := Manifest.read(chain[0]).previous) and (newest.parent / previous / MANIFEST_FILE).exists():
            chain.insert(0, newest.parent / previous)
    except (TypeError, ValueError):
        raise UnusableCopy(f"The manifest of {chain[0]} is unreadable.") from None
    return chain
