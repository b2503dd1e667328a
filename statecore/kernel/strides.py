"""Going over many rows a few at a time, round and round."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime
from typing import Any

Rows = Any  # a queryset, of which a manager's type says nothing
Since = tuple[datetime, str]


def by_entry(rows: Rows, after: Since | None) -> Rows:
    """In the order they came to their state, from a place on."""
    if after is not None:
        since, pk = after
        rows = rows.filter(state_entered_at__gte=since).exclude(state_entered_at=since, pk__lte=pk)
    return rows.order_by("state_entered_at", "pk")


def next_by_entry(rows: Rows, places: dict[Any, Any], lane: Hashable, batch: int) -> list[str]:
    """The ids of the next so many; `places` keeps where each lane was left last time."""
    found = list(by_entry(rows, places.pop(lane, None)).values_list("state_entered_at", "pk")[:batch])
    if len(found) == batch:
        places[lane] = found[-1]
    return [pk for _since, pk in found]


def next_by_id(rows: Rows, places: dict[Any, Any], lane: Hashable, batch: int) -> list[tuple[str, str]]:
    """Ids and states of the next so many, the newest ids first."""
    if place := places.pop(lane, None):
        rows = rows.filter(pk__lt=place)
    found = list(rows.order_by("-pk").values_list("pk", "state")[:batch])
    if len(found) == batch:
        places[lane] = found[-1][0]
    return found
