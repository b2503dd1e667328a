"""From a moment to a position: positions are dense and follow the clock closely, so halving finds the place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db import connection

from ..records.commit_order import EVENTS, POSITIONS
from ..records.retirement import horizon

# An event gets its position when it is committed, a while after its time; clocks of several machines differ a little.
SLACK = timedelta(hours=1)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)  # there is no time beyond


def none_before(moment: datetime, head: int) -> int:
    """A position after which all events of this moment and later are found."""
    return _last_before(moment - min(SLACK, moment - FIRST), head)


def none_after(moment: datetime, head: int) -> int:
    """A position up to which all events before this moment are found."""
    return min(head, _last_before(moment + min(SLACK, LAST - moment), head) + 1)


def _last_before(moment: datetime, head: int) -> int:
    low, high = horizon(), head
    while low < high:
        middle = (low + high + 1) // 2
        if _time_of(middle) < moment:
            low = middle
        else:
            high = middle - 1
    return low


def _time_of(position: int) -> datetime:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT e.timestamp FROM {POSITIONS} AS p JOIN {EVENTS} AS e USING (event_id) WHERE p.position = %s",
            [position],
        )
        found = cursor.fetchone()
    moment: datetime = found[0] if found else datetime.max.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
