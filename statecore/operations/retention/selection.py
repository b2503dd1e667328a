"""Selects the events to archive: the oldest ones, in signed checkpoints that are old enough, read by every sink."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from ...journal.archive import get_last_archived_position
from ...journal.checkpoints import newest_before
from ...journal.position import head
from ...journal.tree import tree_size
from ...records import SinkCursor

BATCH = 10_000  # events per file and transaction; on SQLite other writers wait for that long


class DueEvents(NamedTuple):
    first: int
    last: int
    # The sink that has read the fewest events; later events are not archived.
    slowest: str

    @property
    def events(self) -> int:
        return self.last - self.first + 1


def find_due_events(older_than: datetime) -> DueEvents:
    """Returns the range of positions that can be archived now. If there is none, `events` is 0.

    A position is due if a checkpoint of that age includes it and every sink has read it. The last position stays:
    the sequencer and the exports continue from its event.
    """
    archived = get_last_archived_position()
    slowest = SinkCursor.objects.order_by("position").first()
    last = min(newest_before(older_than), tree_size(), head() - 1)
    if slowest is not None:
        last = min(last, slowest.position)
    return DueEvents(archived + 1, max(archived, last), str(slowest) if slowest else "no sink")
