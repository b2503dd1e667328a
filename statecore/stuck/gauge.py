"""How much is stuck, for whoever watches from outside."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db import connection

from ..derive.standing import Standing
from ..kernel import registry
from ..kernel.clock import now
from . import scan

MOST = 1_000  # of each machine and state; who has more needs no exact number


def overdue_counts(at: datetime) -> list[tuple[str, str, int]]:
    """How many are past the deadline of each state that has one, up to MOST: all of them in one question."""
    parts, params = [], []
    for flow in registry.flows():
        for state in flow.states:
            if (deadline := flow.deadline(state)) is not None and not flow.is_final(state):
                late = scan.late(flow, state, at, deadline).values_list("pk")[:MOST]
                statement, given = late.query.sql_with_params()
                parts.append(f"SELECT %s, %s, count(*) FROM ({statement}) AS late")  # noqa: S608 - a query set's own statement
                params += [flow.entity_type, state, *given]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), params)
        return [(str(kind), str(state), int(count)) for kind, state, count in cursor.fetchall()]


class StuckEntities(Standing):
    name = "statecore_stuck_entities"
    says = f"Past their deadline, up to {MOST} each"
    labels = ("entity_type", "state")

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        return (((entity_type, state), count) for entity_type, state, count in overdue_counts(now()))
