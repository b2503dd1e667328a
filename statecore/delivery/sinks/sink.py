"""The interface of a sink, the numbered events it receives, and how a batch of them is read."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ClassVar

from django.db import connection, transaction

from ... import journal
from ...journal import Entry
from ...journal.commit_order import EVENTS, POSITIONS
from ...records.leader_lease import Leadership

COLUMNS = ", ".join(f"e.{name}" for name in journal.COLUMNS)
TIMESTAMP = 1 + journal.COLUMNS.index("timestamp")


class MissingEvent(RuntimeError):
    """A position has no event: the journal was changed without its triggers."""


class NumberedEvent:
    def __init__(self, position: int, entry: Entry) -> None:
        self.position, self.entry = position, entry

    @cached_property
    def serialized(self) -> dict[str, Any]:
        """The event in its public form, built once for all sinks."""
        return self.entry.as_dict()


Batch = list[NumberedEvent]


class Sink:
    """A consumer of the journal. The sequencer stores a cursor for it, the last position that was delivered."""

    name: ClassVar[str]
    # Of the process that delivers; None in tests of a sink alone.
    leadership: Leadership | None = None

    def recover(self, cursor: int) -> int:
        """Returns the position to continue after. Called before the first delivery and after each failure."""
        return cursor

    def deliver(self, batch: Batch) -> None:
        """Processes the next events, in the transaction that moves the cursor: writes commit together with it."""
        raise NotImplementedError

    def tick(self, at: datetime) -> None:
        """Does what depends on time rather than on events. Called every few seconds, outside a transaction."""

    def fenced(self) -> AbstractContextManager[None]:
        """Opens a transaction for what `tick` writes. It is committed only if this process leads until its end."""
        return self.leadership.fenced() if self.leadership else transaction.atomic()

    def close(self) -> None:
        """Releases files and connections. Called when the process stops leading."""


def read_batch(after: int, limit: int) -> Batch:
    """Returns at most `limit` events after a position; raises MissingEvent if a position has no event."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT p.position, {COLUMNS} FROM {POSITIONS} AS p LEFT JOIN {EVENTS} AS e ON e.event_id = p.event_id "
            f"WHERE p.position > %s AND p.position <= %s ORDER BY p.position",
            [after, after + limit],
        )
        return [_parse_row(row, expected) for expected, row in enumerate(cursor.fetchall(), after + 1)]


def _parse_row(row: tuple[Any, ...], expected: int) -> NumberedEvent:
    if row[0] != expected or row[1] is None:
        raise MissingEvent(f"position {expected} has no event; see `manage.py integrity`")
    moment: datetime = row[TIMESTAMP]
    if moment.tzinfo is None:
        row = (*row[:TIMESTAMP], moment.replace(tzinfo=UTC), *row[TIMESTAMP + 1 :])
    return NumberedEvent(row[0], Entry._make(row[1:]))
