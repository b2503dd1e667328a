"""Compares the journal with copies outside the database: checkpoints, exports, archive files and journal files.

An attacker who rewrites the whole database cannot change them. A checkpoint shows that the history was rewritten, a
copy of the events shows at which position.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from django.db import connection

from ...journal import Position
from ...journal.archive import get_last_archived_position
from ...journal.checkpoints import find_difference, find_key, read_saved
from ...journal.home_files import JOURNAL_FILE, get_journal_path
from ...journal.tree import read_leaves
from ...transparency.checkpoint import open_checkpoint
from ...transparency.evidence import InvalidEvidence, Line, parse_line, read_lines
from ...transparency.merkle import hash_leaf
from ...transparency.notes import InvalidNote, VerifierKey
from .findings import Finding, build_journal_error
from .positions import SELECT_HASHES

BATCH_SIZE = 1_000
TAIL_BYTES = 1 << 20
# Findings about the file itself: it was damaged or changed, while the database is as it was signed.
JOURNAL_FILE_CHECK = "journal_file"


class Difference(NamedTuple):
    """The first position at which a copy differs. A damaged copy proves nothing about the database."""

    position: int
    detail: str
    is_damage: bool = False


def compare_events(path: Path) -> Iterator[Finding]:
    """Yields the first difference of a file with events: a journal file, an archive file, or that of an export."""
    try:
        difference = find_first_difference(read_lines(path))
    except InvalidEvidence as error:
        difference = Difference(0, str(error), is_damage=True)
    if difference:
        yield build_journal_error("copy", f"{path.name}: {difference.detail}")


def compare_checkpoint(path: Path, key: VerifierKey) -> Iterator[Finding]:
    """Yields the difference from a checkpoint in a file. Raises InvalidNote if it is not signed with the key."""
    if problem := find_difference(open_checkpoint(path.read_text("utf-8", "replace"), key), key):
        yield build_journal_error("checkpoint", f"{path.name}: {problem}")


def find_first_difference(lines: Iterable[bytes]) -> Difference | None:
    """Returns the first line that is damaged, out of order, or not the event in the database."""
    expected = None
    complete = (line for line in lines if line.endswith(b"\n"))  # the last line may be written just now
    while batch := list(islice(complete, BATCH_SIZE)):
        parsed, damage = _parse_batch(batch, expected)
        if difference := _compare_batch(parsed) or damage:
            return difference
        expected = parsed[-1].position + 1
    return None


def _parse_batch(batch: Iterable[bytes], expected: int | None) -> tuple[list[Line], Difference | None]:
    """Returns the lines up to the first damaged one, and the damage."""
    parsed: list[Line] = []
    for text in batch:
        try:
            line = parse_line(text)
        except InvalidEvidence as error:
            detail = f"it is damaged at position {expected or 1}: {error}"
            return parsed, Difference(expected or 1, detail, is_damage=True)
        if expected is not None and line.position != expected:
            detail = f"position {expected} is missing: position {line.position} follows {expected - 1}"
            return parsed, Difference(expected, detail, is_damage=True)
        parsed.append(line)
        expected = line.position + 1
    return parsed, None


def _compare_batch(lines: list[Line]) -> Difference | None:
    if not lines:
        return None
    first, last = lines[0].position, lines[-1].position
    archived = get_last_archived_position()
    # The events of archived positions are no longer in the database, but their leaves are.
    leaves = read_leaves(first, min(last, archived)) if first <= archived else []
    with connection.cursor() as cursor:
        cursor.execute(SELECT_HASHES, [first, last])
        hashes = dict(cursor.fetchall())
    for index, (position, body, hash_) in enumerate(lines):
        is_archived = position <= archived
        if is_archived and leaves[index : index + 1] == [hash_leaf(body)]:
            continue
        if not is_archived and hashes.get(position) == hash_:
            continue
        if not is_archived and hashes.get(position) is None:
            return Difference(position, f"the event at position {position} is not in the database")
        return Difference(position, f"the event at position {position} differs from the database")
    return None


def check_journal_file(*, tail_only: bool = False) -> Iterator[Finding]:
    """Compares `transitions.jsonl` in the home directory, or its last lines, with the database."""
    path = get_journal_path()
    if not path.exists():
        return
    if difference := find_first_difference(_read_tail(path) if tail_only else read_lines(path)):
        check = JOURNAL_FILE_CHECK if difference.is_damage or is_signed(difference.position) else "copy"
        yield build_journal_error(check, f"{JOURNAL_FILE}: {difference.detail}")


def is_signed(position: int) -> bool:
    """Whether the database has at a position what the checkpoint in the home directory includes.

    A copy that differs there was changed, and not the database.
    """
    key = find_key()
    try:
        saved = read_saved(key) if key else None
    except InvalidNote:
        return False
    if key is None or saved is None or saved.size < position or find_difference(saved, key):
        return False
    body = Position.objects.filter(position=position).values_list("event__body", flat=True).first()
    return body is None or read_leaves(position, position) == [hash_leaf(body.encode())]


def _read_tail(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES)
        file.seek(start)
        if start:
            file.readline()  # skip the rest of a line
        yield from file
