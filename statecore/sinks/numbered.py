"""An event with its position, as the sinks get it, and how a batch of them is read."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from django.db import connection

from .. import journal
from ..journal import Entry
from ..records.commit_order import EVENTS, POSITIONS

COLUMNS = ", ".join(f"e.{name}" for name in journal.COLUMNS)
TIMESTAMP = 1 + journal.COLUMNS.index("timestamp")


class MissingEvent(RuntimeError):
    """A position whose event is gone: somebody got past the triggers."""


class Numbered:
    def __init__(self, position: int, entry: Entry) -> None:
        self.position, self.entry = position, entry

    @cached_property
    def told(self) -> dict[str, Any]:
        """As it is told to the outside. Several sinks want it, it is made once."""
        return self.entry.as_dict()


Batch = list[Numbered]


def read(after: int, limit: int) -> Batch:
    """The events that follow a position, without a gap."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT p.position, {COLUMNS} FROM {POSITIONS} AS p LEFT JOIN {EVENTS} AS e ON e.event_id = p.event_id "
            f"WHERE p.position > %s AND p.position <= %s ORDER BY p.position",
            [after, after + limit],
        )
        return [_numbered(row, expected) for expected, row in enumerate(cursor.fetchall(), after + 1)]


def _numbered(row: tuple[Any, ...], expected: int) -> Numbered:
    if row[0] != expected or row[1] is None:
        raise MissingEvent(f"position {expected} has no event; see `manage.py integrity`")
    moment: datetime = row[TIMESTAMP]
    if moment.tzinfo is None:
        row = (*row[:TIMESTAMP], moment.replace(tzinfo=UTC), *row[TIMESTAMP + 1 :])
    return Numbered(row[0], Entry._make(row[1:]))
