"""Keyset scans: read a large table in batches, each batch continuing where the last one ended, and start over."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime
from typing import Any

from .query_plans import reading_by_index

Rows = Any  # a queryset; the type of a manager does not support the calls below
Since = tuple[datetime, str]


def order_by_time(rows: Rows, column: str, after: Since | None) -> Rows:
    """Orders rows by a timestamp column and the id, starting after the given pair."""
    if after is not None:
        since, pk = after
        rows = rows.filter(**{f"{column}__gte": since}).exclude(**{column: since, "pk__lte": pk})
    return rows.order_by(column, "pk")


def order_by_state_entry(rows: Rows, after: Since | None) -> Rows:
    return order_by_time(rows, "state_entered_at", after)


def next_by_time(rows: Rows, column: str, cursors: dict[Any, Any], scan: Hashable, batch: int) -> list[str]:
    """Returns the ids of the next batch; `cursors` stores where each scan continues."""
    ahead = order_by_time(rows, column, cursors.pop(scan, None)).values_list(column, "pk")
    with reading_by_index():
        found = list(ahead[:batch])
    if len(found) == batch:
        cursors[scan] = found[-1]
    return [pk for _since, pk in found]


def next_by_entry(rows: Rows, cursors: dict[Any, Any], scan: Hashable, batch: int) -> list[str]:
    return next_by_time(rows, "state_entered_at", cursors, scan, batch)


def next_by_id(rows: Rows, cursors: dict[Any, Any], scan: Hashable, batch: int, *columns: str) -> list[tuple[Any, ...]]:
    """Returns the id and the given columns of the next batch, newest ids first."""
    if place := cursors.pop(scan, None):
        rows = rows.filter(pk__lt=place)
    with reading_by_index():
        found = list(rows.order_by("-pk").values_list("pk", *columns)[:batch])
    if len(found) == batch:
        cursors[scan] = found[-1][0]
    return found
