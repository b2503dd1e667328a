"""Entities of all machines by id: the whole id, or its beginning; in one statement, within a time limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from django.db import connection

from statecore.kernel.flow import Flow
from statecore.kernel.ids import is_valid_id

from .time_limit import TimedOut, time_limit

SECONDS = 1.0
MOST_IDS = 20


class Found(NamedTuple):
    entity_type: str
    entity_id: str
    state: str


def find_by_ids(flows: Iterable[Flow], words: Iterable[str]) -> list[Found]:
    """The entities whose whole id is one of the words, in the order of the machines."""
    wanted = [word for word in words if is_valid_id(word)][:MOST_IDS]
    places = ", ".join(["%s"] * len(wanted))
    return _select(list(flows), f"id IN ({places})", wanted, MOST_IDS) if wanted else []


def find_by_prefix(flows: Iterable[Flow], start: str, limit: int) -> list[Found] | None:
    """Entities whose id begins with the text, some of each machine; None if the search took too long.

    SQLite reads the index of ids for GLOB, PostgreSQL for LIKE in the collation C only, and otherwise the whole index.
    """
    if not is_valid_id(start):  # ids contain no wildcard of GLOB, and of LIKE only the underscore
        return []
    pattern = f"{start}*" if connection.vendor == "sqlite" else start.replace("_", r"\_") + "%"
    condition = "id GLOB %s" if connection.vendor == "sqlite" else "id LIKE %s"
    try:
        with time_limit(SECONDS):
            return _select(list(flows), condition, [pattern], limit)
    except TimedOut:
        return None


def _select(flows: Sequence[Flow], condition: str, params: list[str], limit: int) -> list[Found]:
    parts = [
        f"SELECT * FROM (SELECT '{flow.entity_type}', id, state FROM {flow.model._meta.db_table}"  # noqa: S608 - our own
        f" WHERE {condition} LIMIT {limit}) AS {flow.entity_type}"
        for flow in flows
    ]
    if not parts:
        return []
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), params * len(parts))
        return [Found(*row) for row in cursor.fetchall()]
