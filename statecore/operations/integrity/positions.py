"""Verifies the global order: every position has its event."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection

from ...journal import ArchivedRange, Numbering
from ...journal.commit_order import EVENTS, POSITIONS
from ...journal.copies import SELECT_HASHES
from .findings import LIMIT, Finding, build_journal_error

# One statement, so that concurrent numbering and archiving cannot make the values inconsistent.
SELECT_EXTENT = f"""
    SELECT count(*), min(position), max(position),
           coalesce((SELECT max(head) FROM {Numbering._meta.db_table}), 0),
           coalesce((SELECT max(last_position) FROM {ArchivedRange._meta.db_table}), 0)
    FROM {POSITIONS}
"""
SELECT_WITHOUT_EVENT = f"""
    SELECT p.position, p.event_id FROM {POSITIONS} AS p
    WHERE NOT EXISTS (SELECT 1 FROM {EVENTS} AS e WHERE e.event_id = p.event_id)
    ORDER BY p.position LIMIT {LIMIT}
"""


def check_positions() -> Iterator[Finding]:
    """Reports gaps in the numbering, and positions without an event."""
    with connection.cursor() as cursor:
        cursor.execute(SELECT_EXTENT)
        ((count, first, last, assigned, archived),) = cursor.fetchall()
    if (last or archived) != assigned or count != assigned - archived:
        detail = f"{count} positions exist and the last is {last}, but {assigned} were assigned"
        yield build_journal_error("positions", f"{detail}, of which {archived} were archived" if archived else detail)
    elif count and first <= archived:
        yield build_journal_error("positions", f"position {first} exists, although all up to {archived} were archived")
    with connection.cursor() as cursor:
        cursor.execute(SELECT_WITHOUT_EVENT)
        for position, event_id in cursor.fetchall():
            yield build_journal_error("positions", f"the event {event_id} at position {position} is missing")


def check_position_range(after: int, upto: int) -> Iterator[Finding]:
    """Reports the positions after `after` and up to `upto` that have no event."""
    with connection.cursor() as cursor:
        cursor.execute(SELECT_HASHES, [after + 1, upto])
        existing = {position for position, hash_ in cursor.fetchall() if hash_ is not None}
    for position in sorted(set(range(after + 1, upto + 1)) - existing)[:LIMIT]:
        yield build_journal_error("positions", f"the event at position {position} is missing")
