"""Gives committed events their positions: dense, in an order that no reader can find fault with."""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction

from ..kernel.latch import opened
from ..records import commit_order
from ..records.commit_order import EVENTS, POSITIONS, Unnumbered
from ..records.position import Numbering

# On SQLite, where everybody waits while one writes. On PostgreSQL nobody waits, and what is new is one snapshot.
CHUNK = 5_000
COLUMNS = "position, event_id, entity_type, kind, run_id"
RUN = {
    "postgresql": "coalesce(e.body::json #>> '{details,context,run_id}', '')",
    "sqlite": "coalesce(json_extract(e.body, '$.details.context.run_id'), '')",
}


def number() -> int:
    """Number what was committed since the last time; how many there were."""
    if not _is_anything_new():
        return 0
    with transaction.atomic():
        standing = Numbering.objects.select_for_update().get(pk=1)
        new = commit_order.unnumbered(standing.seen)
        with opened(connection), connection.cursor() as cursor:
            place = _place_on_postgresql if connection.vendor == "postgresql" else _place_on_sqlite
            count, seen = place(cursor, new, standing)
        Numbering.objects.filter(pk=1).update(head=standing.head + count, seen=seen)
    return count


def _is_anything_new() -> bool:
    """Asked without a lock: on SQLite an idle sequencer must not keep the writers waiting."""
    seen = Numbering.objects.values_list("seen", flat=True).get(pk=1)
    new = commit_order.unnumbered(seen)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {EVENTS} AS e WHERE {new.condition} LIMIT 1", new.params)
        return bool(cursor.fetchall())


def _numbered(new: Unnumbered, limit: str = "") -> str:
    return (
        f"SELECT %s + row_number() OVER (ORDER BY {commit_order.order()}), e.event_id, e.entity_type, e.kind, "
        f"{RUN[connection.vendor]} FROM {EVENTS} AS e WHERE {new.condition} ORDER BY {commit_order.order()} {limit}"
    )


def _place_on_postgresql(cursor: Any, new: Unnumbered, standing: Numbering) -> tuple[int, str]:
    """One statement, so that the events it finds and the snapshot it tells are of the same moment."""
    cursor.execute(
        f"WITH placed AS (INSERT INTO {POSITIONS} ({COLUMNS}) {_numbered(new)} RETURNING 1) "
        f"SELECT (SELECT count(*) FROM placed), pg_current_snapshot()::text",
        [standing.head, *new.params],
    )
    count, seen = cursor.fetchone()
    return int(count), str(seen)


def _place_on_sqlite(cursor: Any, new: Unnumbered, standing: Numbering) -> tuple[int, str]:
    cursor.execute(
        f"INSERT INTO {POSITIONS} ({COLUMNS}) {_numbered(new, 'LIMIT %s')}", [standing.head, *new.params, CHUNK]
    )
    count = cursor.rowcount
    cursor.execute(
        f"SELECT e.rowid || ' ' || e.event_id FROM {POSITIONS} AS p JOIN {EVENTS} AS e USING (event_id) "
        f"WHERE p.position = %s",
        [standing.head + count],
    )
    (last,) = cursor.fetchall()
    return int(count), str(last[0])
