"""The global order: every position has its event, and every sealed range is as it was when it was sealed."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection

from ..journal import GENESIS
from ..records import Numbering, Retirement, Seal
from ..records.commit_order import EVENTS, POSITIONS
from ..records.retirement import horizon
from ..records.seal import chained, root_of
from .finding import ERROR, LIMIT, Finding

SELECT_HASHES = f"""
    SELECT p.position, e.hash FROM {POSITIONS} AS p LEFT JOIN {EVENTS} AS e ON e.event_id = p.event_id
    WHERE p.position BETWEEN %s AND %s ORDER BY p.position
"""
# In one question: while others number and retire, two answers would not be of the same moment.
SELECT_EXTENT = f"""
    SELECT count(*), min(position), max(position),
           coalesce((SELECT max(head) FROM {Numbering._meta.db_table}), 0),
           coalesce((SELECT max(last_position) FROM {Retirement._meta.db_table}), 0)
    FROM {POSITIONS}
"""


def positions_are_dense() -> Iterator[Finding]:
    with connection.cursor() as cursor:
        cursor.execute(SELECT_EXTENT)
        ((count, first, upto, last, retired),) = cursor.fetchall()
    if (upto or retired) != last or count != last - retired:
        detail = f"{count} positions are there, the last is {upto}, and {last} were given"
        yield _finding("positions", f"{detail}, of which {retired} were retired" if retired else detail)
    elif count and first <= retired:
        yield _finding("positions", f"position {first} is there, and all up to {retired} were retired")
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT p.position, p.event_id FROM {POSITIONS} AS p WHERE NOT EXISTS "
            f"(SELECT 1 FROM {EVENTS} AS e WHERE e.event_id = p.event_id) ORDER BY p.position LIMIT {LIMIT}"
        )
        for position, event_id in cursor.fetchall():
            yield _finding("positions", f"the event {event_id} at position {position} is gone")


def verify_seals(latest: int | None = None) -> Finding | None:
    """The first seal that does not hold, of all or of the latest; None when all hold."""
    seals = Seal.objects.order_by("last_position")
    last: Seal | None = None
    if latest is not None:
        newest = list(Seal.objects.order_by("-last_position")[: latest + 1])[::-1]
        if len(newest) > latest:
            last = newest.pop(0)
        seals = seals.filter(last_position__gt=last.last_position if last else 0)
    retired = horizon()
    for seal in seals.iterator():
        if why := _objection(seal, last, retired):
            return _finding("seal", f"{seal}: {why}")
        last = seal
    return None


def stretch_is_dense(after: int, upto: int) -> Iterator[Finding]:
    """Every position between these two has its event."""
    with connection.cursor() as cursor:
        cursor.execute(SELECT_HASHES, [after + 1, upto])
        there = {position for position, hash_ in cursor.fetchall() if hash_ is not None}
    for position in sorted(set(range(after + 1, upto + 1)) - there)[:LIMIT]:
        yield _finding("positions", f"the event at position {position} is gone")


def verify_seals_within(after: int, upto: int) -> Finding | None:
    """The first of those that end between two positions that does not hold."""
    last = Seal.objects.filter(last_position__lte=after).order_by("-last_position").first()
    retired = horizon()
    for seal in Seal.objects.filter(last_position__gt=after, last_position__lte=upto).order_by("last_position"):
        if why := _objection(seal, last, retired):
            return _finding("seal", f"{seal}: {why}")
        last = seal
    return None


def _objection(seal: Seal, before: Seal | None, retired: int) -> str | None:
    if seal.first_position != (before.last_position + 1 if before else 1):
        return "the seal before it is missing"
    if seal.prev_hash != (before.hash if before else GENESIS):
        return "it does not follow the seal before it"
    if seal.hash != chained(seal.first_position, seal.last_position, seal.root, seal.prev_hash):
        return "it is not what its hash says"
    return None if seal.last_position <= retired else _objection_to_events(seal)


def _objection_to_events(seal: Seal) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(SELECT_HASHES, [seal.first_position, seal.last_position])
        rows = cursor.fetchall()
    for expected, (position, hash_) in enumerate(rows, seal.first_position):
        if position != expected or hash_ is None:
            return f"the event at position {expected} is gone"
    if len(rows) != seal.last_position - seal.first_position + 1:
        return f"its events end at position {seal.first_position + len(rows) - 1}"
    if root_of(seal.first_position, [hash_ for _position, hash_ in rows]) != seal.root:
        return "its events are not those that were sealed"
    return None


def _finding(check: str, detail: str) -> Finding:
    return Finding(check, ERROR, "", "", detail)
