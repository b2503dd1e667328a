"""Verifies the global order: every position has its event, and the epoch is the one that the journal records."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from django.db import connection
from django.db.models import Subquery

from ...journal import Anchor, ArchivedRange, Event, Numbering, epochs
from ...journal.commit_order import EVENTS, POSITIONS
from ...journal.copies import SELECT_HASHES
from .findings import ERROR, LIMIT, WARNING, Finding, build_journal_error

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


def check_epoch() -> Iterator[Finding]:
    """Reports an epoch that the last epoch event does not have; nothing if that event was archived.

    Without any epoch event it is a warning: earlier versions raised the epoch of a restored database without an event.
    Readers compare their cursors with the stored number, so a changed one makes them discard or reuse positions.
    """
    its = {"entity_type": epochs.ENTITY_TYPE, "entity_id": epochs.ENTITY_ID}
    last = Event.objects.filter(**its).order_by("-sequence").values("body")[:1]
    # One statement, so that an epoch that starts meanwhile is not reported.
    found = Numbering.objects.annotate(last_event=Subquery(last)).values_list("epoch", "last_event").first()
    epoch, body = found or (1, None)
    if body is None and Anchor.objects.filter(**its).exists():
        return
    recorded = orjson.loads(body)["details"]["metadata"]["epoch"] if body else 1
    if epoch != recorded:
        detail = f"the stored epoch is {epoch}, but the journal records epoch {recorded}"
        yield Finding("epoch", ERROR if body else WARNING, "", "", detail)
