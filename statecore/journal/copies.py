"""Compares lines of a journal file, an archive file or an export with the events in the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from django.db import connection

from statecore_client.transparency.evidence import InvalidEvidence, Line, parse_line
from statecore_client.transparency.merkle import hash_leaf
from statecore_client.transparency.notes import InvalidNote

from .archive import get_last_archived_position
from .checkpoints import find_difference, find_key, read_saved
from .commit_order import EVENTS, POSITIONS
from .position import Position
from .tree import read_leaves

BATCH_SIZE = 1_000
SELECT_HASHES = f"""
    SELECT p.position, e.hash FROM {POSITIONS} AS p LEFT JOIN {EVENTS} AS e ON e.event_id = p.event_id
    WHERE p.position BETWEEN %s AND %s ORDER BY p.position
"""


class Difference(NamedTuple):
    """The first line that differs. A damaged line proves nothing about the database."""

    # Its index in the lines that were compared.
    line: int
    position: int
    detail: str
    is_damage: bool = False


def find_first_difference(lines: Iterable[bytes]) -> Difference | None:
    """Returns the first line that is damaged, out of order, or not the event in the database."""
    complete, expected = (line for line in lines if line.endswith(b"\n")), None  # the last may be written just now
    while batch := list(islice(complete, BATCH_SIZE)):
        if difference := compare_lines(batch, expected):
            return difference
        expected = parse_line(batch[-1]).position + 1
    return None


def compare_lines(lines: Sequence[bytes], expected: int | None) -> Difference | None:
    """Returns the first difference; the first line must have the expected position."""
    parsed, damage = _parse(lines, expected)
    return _compare(parsed) or damage


def _parse(lines: Iterable[bytes], expected: int | None) -> tuple[list[Line], Difference | None]:
    """Returns the lines up to the first damaged one, and the damage."""
    parsed: list[Line] = []
    for index, text in enumerate(lines):
        try:
            line = parse_line(text)
        except InvalidEvidence as error:
            detail = f"it is damaged at position {expected or 1}: {error}"
            return parsed, Difference(index, expected or 1, detail, is_damage=True)
        if expected is not None and line.position != expected:
            detail = f"position {expected} is missing: position {line.position} follows {expected - 1}"
            return parsed, Difference(index, expected, detail, is_damage=True)
        parsed.append(line)
        expected = line.position + 1
    return parsed, None


def _compare(lines: list[Line]) -> Difference | None:
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
            return Difference(index, position, f"the event at position {position} is not in the database")
        return Difference(index, position, f"the event at position {position} differs from the database")
    return None


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
