"""Going over many rows a few at a time, round and round."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime
from typing import Any

from django.db import connection, transaction

Rows = Any  # a queryset, of which a manager's type says nothing
Since = tuple[datetime, str]


def by_time(rows: Rows, column: str, after: Since | None) -> Rows:
    """In the order of a moment they hold, from a place on."""
    if after is not None:
        since, pk = after
        rows = rows.filter(**{f"{column}__gte": since}).exclude(**{column: since, "pk__lte": pk})
    return rows.order_by(column, "pk")


def by_entry(rows: Rows, after: Since | None) -> Rows:
    """In the order they came to their state, from a place on."""
    return by_time(rows, "state_entered_at", after)


def next_by_time(rows: Rows, column: str, places: dict[Any, Any], lane: Hashable, batch: int) -> list[str]:
    """The ids of the next so many; `places` keeps where each lane was left last time."""
    ahead = by_time(rows, column, places.pop(lane, None)).values_list(column, "pk")
    found = _along_the_index(ahead[:batch])
    if len(found) == batch:
        places[lane] = found[-1]
    return [pk for _since, pk in found]


def _along_the_index(rows: Rows) -> list[Any]:
    """No further than asked: where PostgreSQL has not counted yet it expects a few, and would read all to sort them."""
    if connection.vendor != "postgresql":
        return list(rows)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_sort = off")
        found = list(rows)
        transaction.set_rollback(True)  # the setting goes with it, also where somebody else's transaction goes on
    return found


def next_by_entry(rows: Rows, places: dict[Any, Any], lane: Hashable, batch: int) -> list[str]:
    return next_by_time(rows, "state_entered_at", places, lane, batch)


def next_by_id(rows: Rows, places: dict[Any, Any], lane: Hashable, batch: int, *beside: str) -> list[tuple[Any, ...]]:
    """Ids of the next so many and what else is asked for, the newest ids first."""
    if place := places.pop(lane, None):
        rows = rows.filter(pk__lt=place)
    found = _along_the_index(rows.order_by("-pk").values_list("pk", *beside)[:batch])
    if len(found) == batch:
        places[lane] = found[-1][0]
    return found
