"""Pages of the journal by position. The cost of a page does not grow with the journal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from ...journal import parse_event, position
from ...journal.archive import get_last_archived_position
from ...journal.commit_order import EVENTS, POSITIONS
from .filters import Condition, Filters

DEFAULT_LIMIT = 100
# An event is numbered after its commit, a while after its timestamp, and the clocks of several hosts differ a little.
SLACK = timedelta(hours=1)
EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Page(NamedTuple):
    """`more` is true if further events follow in the direction of reading."""

    events: list[dict[str, Any]]
    more: bool


def read_page(
    filters: Filters,
    *,
    after: int = 0,
    before: int | None = None,
    limit: int = DEFAULT_LIMIT,
    newest_first: bool = False,
) -> Page:
    """Returns the first events after a position or, with `newest_first`, the last ones before a position."""
    filters.check()
    statement, params = build_query(filters, after, before, limit + 1, newest_first=newest_first)
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        rows = cursor.fetchall()
    events = [{"position": number, "event": parse_event(body, hash_)} for number, body, hash_ in rows[:limit]]
    return Page(events, len(rows) > limit)


def build_query(
    filters: Filters, after: int, before: int | None, limit: int, *, newest_first: bool
) -> tuple[str, list[Any]]:
    conditions = [*_limit_positions(filters, after, before), *filters.build_conditions()]
    where = " AND ".join(condition.sql for condition in conditions)
    params = [param for condition in conditions for param in condition.params]
    order = "DESC" if newest_first else "ASC"
    statement = (
        f"SELECT p.position, e.body, e.hash FROM {POSITIONS} AS p JOIN {EVENTS} AS e ON e.event_id = p.event_id "
        f"WHERE {where} ORDER BY p.position {order} LIMIT %s"
    )
    return statement, [*params, limit]


def _limit_positions(filters: Filters, after: int, before: int | None) -> list[Condition]:
    """Returns conditions on the position. Limits of time become limits of the position, which an index supports."""
    if filters.since is not None or filters.until is not None:
        head = position.head()
        if filters.since is not None:
            after = max(after, _find_last_position_before(filters.since - min(SLACK, filters.since - EARLIEST), head))
        if filters.until is not None:
            last = _find_last_position_before(filters.until + min(SLACK, LATEST - filters.until), head)
            end = min(head, last + 1) + 1
            before = end if before is None else min(before, end)
    found = [Condition("p.position > %s", [after])]
    return found if before is None else [*found, Condition("p.position < %s", [before])]


def _find_last_position_before(moment: datetime, head: int) -> int:
    """Returns the last position with an earlier timestamp, by binary search.

    It can be wrong by the few events that are not in the order of their timestamps, hence SLACK.
    """
    low, high = get_last_archived_position(), head
    while low < high:
        middle = (low + high + 1) // 2
        if _read_timestamp(middle) < moment:
            low = middle
        else:
            high = middle - 1
    return low


def _read_timestamp(position: int) -> datetime:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT e.timestamp FROM {POSITIONS} AS p JOIN {EVENTS} AS e USING (event_id) WHERE p.position = %s",
            [position],
        )
        found = cursor.fetchone()
    moment: datetime = found[0] if found else LATEST
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
