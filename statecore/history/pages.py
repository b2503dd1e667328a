"""Pages of the journal in the order of positions, from a position on: what a page costs does not grow with the rest."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import connection

from ..journal import read
from ..records import position
from ..records.commit_order import EVENTS, POSITIONS
from . import moments
from .filters import Condition, Filters

USUAL, MOST = 100, 500


class Page(NamedTuple):
    """`more` says that there is more in the direction that was asked for."""

    events: list[dict[str, Any]]
    more: bool


def page(
    filters: Filters, *, after: int = 0, before: int | None = None, limit: int = USUAL, newest_first: bool = False
) -> Page:
    """The first events after a position, or with `newest_first` the last ones before one, newest first."""
    filters.check()
    statement, params = query(filters, after, before, limit + 1, newest_first=newest_first)
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        rows = cursor.fetchall()
    told = [{"position": place, "event": read(body, hash_)} for place, body, hash_ in rows[:limit]]
    return Page(told, len(rows) > limit)


def query(filters: Filters, after: int, before: int | None, limit: int, *, newest_first: bool) -> tuple[str, list[Any]]:
    conditions = [*_range(filters, after, before), *filters.conditions()]
    where = " AND ".join(condition.sql for condition in conditions)
    params = [param for condition in conditions for param in condition.params]
    order = "DESC" if newest_first else "ASC"
    statement = (
        f"SELECT p.position, e.body, e.hash FROM {POSITIONS} AS p JOIN {EVENTS} AS e ON e.event_id = p.event_id "
        f"WHERE {where} ORDER BY p.position {order} LIMIT %s"
    )
    return statement, [*params, limit]


def _range(filters: Filters, after: int, before: int | None) -> list[Condition]:
    """A stretch of positions; one of time is narrowed to a stretch of positions, too."""
    if filters.since is not None or filters.until is not None:
        head = position.head()
        if filters.since is not None:
            after = max(after, moments.none_before(filters.since, head))
        if filters.until is not None:
            end = moments.none_after(filters.until, head) + 1
            before = end if before is None else min(before, end)
    found = [Condition("p.position > %s", [after])]
    return found if before is None else [*found, Condition("p.position < %s", [before])]
