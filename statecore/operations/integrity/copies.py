"""Compares the journal with copies outside the database: checkpoints, exports, archive files and journal files.

An attacker who rewrites the whole database cannot change them. A checkpoint shows that the history was rewritten, a
copy of the events shows at which position.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from statecore_client.transparency.checkpoint import open_checkpoint
from statecore_client.transparency.evidence import InvalidEvidence, read_lines
from statecore_client.transparency.notes import VerifierKey

from ...journal.checkpoints import find_difference
from ...journal.copies import Difference, find_first_difference, is_signed
from ...journal.home_files import JOURNAL_FILE, get_journal_path, list_tampered
from .findings import JOURNAL_FILE_CHECK, Finding, build_journal_error

TAIL_BYTES = 1 << 20


def compare_events(path: Path, lines: Iterator[bytes] | None = None) -> Iterator[Finding]:
    """Yields the first difference of a file with events: a journal file, an archive file, or that of an export.

    `lines` are those of a file that only the caller can read, because it is encrypted.
    """
    try:
        difference = find_first_difference(lines or read_lines(path))
    except InvalidEvidence as error:
        difference = Difference(0, 0, str(error), is_damage=True)
    if difference:
        yield build_journal_error("copy", f"{path.name}: {difference.detail}")


def compare_checkpoint(path: Path, key: VerifierKey) -> Iterator[Finding]:
    """Yields the difference from a checkpoint in a file. Raises InvalidNote if it is not signed with the key."""
    if problem := find_difference(open_checkpoint(path.read_text("utf-8", "replace"), key), key):
        yield build_journal_error("checkpoint", f"{path.name}: {problem}")


def check_journal_file(*, tail_only: bool = False) -> Iterator[Finding]:
    """Compares `transitions.jsonl` in the home directory, or its last lines, with the database.

    Also reports the files that the sequencer has kept because another program had changed them.
    """
    for kept in list_tampered():
        happened = f"was changed by another program and kept as {kept.name}" if kept.stat().st_size else "was deleted"
        trace = f"{JOURNAL_FILE} {happened}; it was repaired. Examine {kept.name}, then move it away"
        yield build_journal_error(JOURNAL_FILE_CHECK, trace)
    path = get_journal_path()
    if not path.exists():
        return
    if difference := find_first_difference(_read_tail(path) if tail_only else read_lines(path)):
        check = JOURNAL_FILE_CHECK if difference.is_damage or is_signed(difference.position) else "copy"
        yield build_journal_error(check, f"{JOURNAL_FILE}: {difference.detail}")


def _read_tail(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES)
        file.seek(start)
        if start:
            file.readline()  # skip the rest of a line
        yield from file
