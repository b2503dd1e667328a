"""Exact counts of overdue entities, and the metric that publishes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from ...kernel import registry
from ...kernel.clock import now
from ...scheduling import deadlines
from ..database_gauge import DatabaseGauge

Key = tuple[str, str]


class StuckEntities(DatabaseGauge):
    name = "statecore_stuck_entities"
    documentation = "Overdue entities"
    labels = ("entity_type", "state")

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        return (((entity_type, state), count) for entity_type, state, count in count_overdue(now()))


def count_overdue(at: datetime) -> list[tuple[str, str, int]]:
    """Returns the entity type, state and number of overdue entities, for each state with a deadline.

    It is one statement. Each part reads the index of live rows, so its cost depends on the number of overdue rows only.
    """
    return count_rows((key, rows.order_by()) for key, rows in _select_overdue_rows(at))


def find_overdue_states(at: datetime) -> list[Key]:
    """Returns the entity types and states that have an overdue entity; reads at most one row of each.

    Their order keeps PostgreSQL to the index of overdue rows: for any one row it would expect another to do as well.
    """
    first_rows = ((key, rows[:1]) for key, rows in _select_overdue_rows(at))
    return [(entity_type, state) for entity_type, state, count in count_rows(first_rows) if count]


def _select_overdue_rows(at: datetime) -> Iterator[tuple[Key, QuerySet[Any]]]:
    for flow in registry.flows():
        for state in flow.states:
            if flow.deadline(state) is not None and not flow.is_final(state):
                rows = deadlines.select_stuck(flow, state, at)
                yield (flow.entity_type, state), rows.values_list("pk")


def count_rows(querysets: Iterable[tuple[Key, QuerySet[Any]]]) -> list[tuple[str, str, int]]:
    """Counts several query sets in one statement and returns each count with its key."""
    parts, params = [], []
    for key, rows in querysets:
        statement, given = rows.query.sql_with_params()
        parts.append(f"SELECT %s, %s, count(*) FROM ({statement}) AS counted")  # noqa: S608 - a query set's statement
        params += [*key, *given]
    if not parts:
        return []
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), params)
        return [(str(first), str(second), int(count)) for first, second, count in cursor.fetchall()]
