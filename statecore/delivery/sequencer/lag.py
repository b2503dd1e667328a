"""How far the sequencer and its sinks are behind, in seconds; cheap to measure from any process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from ...journal import commit_order
from ...journal.commit_order import EVENTS, POSITIONS
from ...journal.position import Numbering
from ...kernel.clock import now
from ...read_models.database_gauge import DatabaseGauge
from ...records import SinkCursor

_TIMESTAMP_AT_POSITION = (
    f"SELECT e.timestamp FROM {POSITIONS} AS p JOIN {EVENTS} AS e USING (event_id) WHERE p.position = %s"
)


class SequencerLag(DatabaseGauge):
    name = "statecore_sequencer_lag_seconds"
    documentation = "Age of the oldest event waiting for its position (numbering) or for a sink"
    labels = ("what",)

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        return (((what,), seconds) for what, seconds in measure_lag().items())


def measure_lag() -> dict[str, float]:
    """Returns the age in seconds of the oldest event without a position, and of the oldest undelivered one by sink."""
    numbering = Numbering.objects.first() or Numbering()
    seconds = {"numbering": _measure_age(*_select_oldest_unnumbered(numbering.seen))}
    for sink, position in SinkCursor.objects.values_list("sink", "position"):
        seconds[sink] = _measure_age(_TIMESTAMP_AT_POSITION, [position + 1]) if position < numbering.head else 0.0
    return seconds


def _select_oldest_unnumbered(seen: str) -> tuple[str, list[Any]]:
    new = commit_order.select_unnumbered(seen)
    order = f"ORDER BY {commit_order.get_order_column()} LIMIT 1"
    return f"SELECT e.timestamp FROM {EVENTS} AS e WHERE {new.condition} {order}", new.params


def _measure_age(query: str, params: list[Any]) -> float:
    with connection.cursor() as cursor:
        cursor.execute(query, params)
        rows = cursor.fetchall()
    if not rows:
        return 0.0
    moment: datetime = rows[0][0]
    return max(0.0, (now() - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))).total_seconds())
