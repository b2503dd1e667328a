"""Verifies the Merkle tree against the events, and the signed checkpoints against the tree."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from django.db import connection

from statecore_client.transparency.merkle import HASH_SIZE, compute_root
from statecore_client.transparency.notes import InvalidNote

from ...journal import SignedCheckpoint
from ...journal.archive import get_last_archived_position
from ...journal.checkpoints import find_contradiction, find_key
from ...journal.commit_order import EVENTS, POSITIONS
from ...journal.tree import TILE_BITS, TILE_SIZE, compute_root_at, read_hashes, tree_size
from ...journal.witnesses import list_witnesses
from .findings import WITNESS_CHECK, Finding, build_journal_error

# A multiple of the tile size, so that each range begins with a tile.
RANGE_SIZE = 256 * TILE_SIZE
FETCH_SIZE = 2_000
MISSING = bytes(HASH_SIZE)
# Bodies as bytes: a flipped bit can make a text undecodable, and decoding takes time too.
SELECT_BODIES = f"""
    SELECT p.position, {{body}} FROM {POSITIONS} AS p JOIN {EVENTS} AS e ON e.event_id = p.event_id
    WHERE p.position BETWEEN %s AND %s
"""
ON_SQLITE = SELECT_BODIES.format(body="CAST(e.body AS BLOB)")
# The ids are in the order of time, so these bounds let PostgreSQL read the events of a large range by an index, instead
# of the whole table for each range.
ON_POSTGRESQL = SELECT_BODIES.format(body="convert_to(e.body, 'UTF8')") + " AND e.event_id BETWEEN %s AND %s"
SELECT_BOUNDS = f"SELECT min(event_id), max(event_id) FROM {POSITIONS} WHERE position BETWEEN %s AND %s"


def verify_tree(after: int = 0, upto: int | None = None) -> Iterator[Finding]:
    """Compares events with their leaves, and each tile with its hash on the level above. Yields the first problem.

    Archived events are compared with their leaves by `read_archive`. Events that are not in the tree yet are ignored.
    """
    size = tree_size()
    last = size if upto is None else min(size, upto)
    for start in range(max(after, get_last_archived_position()) // TILE_SIZE * TILE_SIZE, last, RANGE_SIZE):
        end = min(start + RANGE_SIZE, last)
        if problem := _find_changed_leaf(start, end):
            yield build_journal_error("tree", problem)
            return
    yield from _verify_upper_levels(after, last)


def _find_changed_leaf(start: int, end: int) -> str | None:
    stored, computed = read_hashes(0, start, end), compute_leaves(start, end)
    archived = max(0, get_last_archived_position() - start) * HASH_SIZE
    if stored[archived:] == computed[archived:]:
        return None
    for at in range(archived, len(computed), HASH_SIZE):
        position = start + at // HASH_SIZE + 1
        if computed[at : at + HASH_SIZE] == MISSING:
            return f"the event at position {position} is missing"
        if stored[at : at + HASH_SIZE] != computed[at : at + HASH_SIZE]:
            return f"the event at position {position} differs from its leaf in the tree"
    return None


def compute_leaves(start: int, end: int) -> bytes:
    """Returns the leaf hashes of the events at the positions `start` + 1 to `end`, zeros where an event is missing."""
    leaves = [MISSING] * (end - start)
    for position, body in _stream_bodies(start + 1, end):
        leaves[position - start - 1] = sha256(b"\x00" + body).digest()
    return b"".join(leaves)


def _stream_bodies(first: int, last: int) -> Iterator[tuple[int, bytes]]:
    """Yields rows in any order, which spares the database a sort."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(SELECT_BOUNDS, [first, last])
            params = [first, last, *cursor.fetchall()[0]]
            yield from cursor.cursor.stream(ON_POSTGRESQL, params, binary=True, size=FETCH_SIZE)
        else:
            cursor.execute(ON_SQLITE, [first, last])
            while chunk := cursor.fetchmany(FETCH_SIZE):
                yield from chunk


def _verify_upper_levels(after: int, last: int) -> Iterator[Finding]:
    level, start, end = 0, after >> TILE_BITS, last >> TILE_BITS
    while end:
        for first in range(start // TILE_SIZE * TILE_SIZE, end, TILE_SIZE):
            tile = _find_changed_tile(level, first, min(first + TILE_SIZE, end))
            if tile is not None:
                positions = f"{(tile << TILE_BITS * (level + 1)) + 1} to {(tile + 1) << TILE_BITS * (level + 1)}"
                yield build_journal_error("tree", f"positions {positions} differ from their hash in the tree")
                return
        level, start, end = level + 1, start >> TILE_BITS, end >> TILE_BITS


def _find_changed_tile(level: int, first: int, end: int) -> int | None:
    hashes, above = read_hashes(level, first * TILE_SIZE, end * TILE_SIZE), read_hashes(level + 1, first, end)
    width = TILE_SIZE * HASH_SIZE
    for number in range(end - first):
        root = compute_root(hashes[number * width : (number + 1) * width])
        if root != above[number * HASH_SIZE : (number + 1) * HASH_SIZE]:
            return first + number
    return None


def check_checkpoints(latest: int | None = None) -> Iterator[Finding]:
    """Verifies stored checkpoints, or the given number of the latest ones, and the one in the file."""
    key, size = find_key(), tree_size()
    for number, signed in enumerate(SignedCheckpoint.objects.order_by("-size")[:latest]):
        problem = _find_problem_in_checkpoint(signed, size)
        # Older ones may be signed with an earlier key.
        if problem is None and number == 0 and key is not None and signed.verifier_key != str(key):
            problem = "it was signed with another key than that of this installation"
        if problem is not None:
            yield build_journal_error("checkpoint", f"{signed}: {problem}")
            break
    if key is not None and (problem := find_contradiction(key)):
        yield build_journal_error("checkpoint", problem)


def check_witnesses() -> Iterator[Finding]:
    """Reports configured witnesses that have cosigned nothing for too long."""
    for witness in list_witnesses():
        if witness.is_silent:
            last = f"since {witness.cosigned_at:%Y-%m-%d %H:%M} UTC" if witness.cosigned_at else "anything yet"
            detail = f"the witness {witness.name} has not cosigned {last}; see its log"
            yield build_journal_error(WITNESS_CHECK, detail)


def _find_problem_in_checkpoint(signed: SignedCheckpoint, size: int) -> str | None:
    try:
        checkpoint = signed.open()
    except InvalidNote as error:
        return str(error)
    if (checkpoint.size, checkpoint.root) != (signed.size, bytes(signed.root)):
        return "its columns differ from its note"
    if checkpoint.size > size:
        return f"the tree ends at position {size}"
    if compute_root_at(checkpoint.size) != checkpoint.root:
        return "the tree differs from the one that was signed"
    return None
