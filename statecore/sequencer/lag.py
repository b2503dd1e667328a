"""How far behind the sequencer and its sinks are, in seconds, asked cheaply from any process."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import connection

from ..kernel.clock import now
from ..records import SinkCursor, commit_order
from ..records.commit_order import EVENTS, POSITIONS
from ..records.position import Numbering


def lag() -> dict[str, float]:
    """The age of the oldest event that waits: for its position, and for each sink that has ever been fed."""
    standing = Numbering.objects.first() or Numbering()
    found = {"numbering": _age(*_oldest_unnumbered(standing.seen))}
    for sink, position in SinkCursor.objects.values_list("sink", "position"):
        found[sink] = _age(_AT_POSITION, [position + 1]) if position < standing.head else 0.0
    return found


_AT_POSITION = f"SELECT e.timestamp FROM {POSITIONS} AS p JOIN {EVENTS} AS e USING (event_id) WHERE p.position = %s"


def _oldest_unnumbered(seen: str) -> tuple[str, list[Any]]:
    new = commit_order.unnumbered(seen)
    order = f"ORDER BY {commit_order.order()} LIMIT 1"
    return f"SELECT e.timestamp FROM {EVENTS} AS e WHERE {new.condition} {order}", new.params


def _age(query: str, params: list[Any]) -> float:
    with connection.cursor() as cursor:
        cursor.execute(query, params)
        rows = cursor.fetchall()
    if not rows:
        return 0.0
    moment: datetime = rows[0][0]
    return max(0.0, (now() - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))).total_seconds())
