"""Gives committed events their positions: dense, in an order that no reader can find fault with."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, connection, transaction

from ..kernel.latch import SETTING, opened
from ..records import commit_order
from ..records.commit_order import EVENTS, POSITIONS, Unnumbered
from ..records.position import Numbering

# On SQLite, where everybody waits while one writes. On PostgreSQL nobody waits, and what is new is one snapshot.
CHUNK = 5_000
STANDING = Numbering._meta.db_table
COLUMNS = "position, event_id, entity_type, kind, severity, actor, run_id"
RUN = {
    "postgresql": "coalesce(e.body::json #>> '{details,context,run_id}', '')",
    "sqlite": "coalesce(json_extract(e.body, '$.details.context.run_id'), '')",
}


class Numberer:
    """The leader's: it knows where it stands, and writes only while the database says the same."""

    def __init__(self) -> None:
        self.head, self.seen = 0, ""

    def begin(self) -> None:
        row = commit_order.mark()
        self.head, self.seen = row.head, row.seen

    def number(self) -> int:
        """Number what was committed since the last time; how many there were."""
        try:
            count = self._on_postgresql() if connection.vendor == "postgresql" else self._on_sqlite()
        except IntegrityError:
            # One of them has a position already, so the mark is wrong. Without it only those that have none are found.
            Numbering.objects.filter(pk=1).update(seen="")
            self.begin()
            raise
        self.head += count
        return count

    def _on_postgresql(self) -> int:
        """One statement, one round trip: the events it finds and the snapshot it keeps are of the same moment.

        Without a mark, as after a restore, the whole journal is looked at: so that look leaves one in any case.
        """
        new = commit_order.since(self.seen)
        with connection.cursor() as cursor:
            cursor.execute(_FUSED.format(numbered=_numbered(new)), [self.seen, *new.params])
            count, seen = cursor.fetchone()
        if count or not self.seen:
            self.seen = seen
        return int(count)

    def _on_sqlite(self) -> int:
        """Asked without a lock first: an idle sequencer must not keep the writers waiting."""
        new = commit_order.unnumbered(self.seen)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {EVENTS} AS e WHERE {new.condition} LIMIT 1", new.params)
            if not cursor.fetchall():
                return 0
            with transaction.atomic(), opened(connection):
                count, self.seen = self._place(cursor, new)
        return count

    def _place(self, cursor: Any, new: Unnumbered) -> tuple[int, str]:
        cursor.execute(
            f"INSERT INTO {POSITIONS} ({COLUMNS}) {_numbered(new, '(SELECT %s AS head) AS base')} LIMIT %s",
            [self.head, *new.params, CHUNK],
        )
        count = cursor.rowcount
        cursor.execute(
            f"SELECT e.rowid || ' ' || e.event_id FROM {POSITIONS} AS p JOIN {EVENTS} AS e USING (event_id) "
            f"WHERE p.position = %s",
            [self.head + count],
        )
        ((seen,),) = cursor.fetchall()
        Numbering.objects.filter(pk=1).update(head=self.head + count, seen=seen)
        return count, seen


def _numbered(new: Unnumbered, base: str = "base") -> str:
    order = commit_order.order()
    return (
        f"SELECT base.head + row_number() OVER (ORDER BY {order}), e.event_id, e.entity_type, e.kind, "
        f"e.severity, e.actor, {RUN[connection.vendor]} "
        f"FROM {base}, {EVENTS} AS e WHERE {new.condition} ORDER BY {order}"
    )


# It opens the latch that the triggers watch for this one statement. A second leader, should there ever be one, finds
# another mark than it remembers, and places nothing.
_FUSED = f"""
    WITH latch AS MATERIALIZED (SELECT set_config('{SETTING}', 'open', true) AS stands),
    base AS MATERIALIZED (SELECT head FROM {STANDING}, latch WHERE id = 1 AND seen = %s AND stands = 'open'),
    placed AS (INSERT INTO {POSITIONS} ({COLUMNS}) {{numbered}} RETURNING 1),
    counted AS (SELECT count(*) AS n FROM placed),
    moved AS (
        UPDATE {STANDING} SET head = head + n, seen = pg_current_snapshot()::text FROM counted
        WHERE id = 1 AND (n > 0 OR seen = '')
    )
    SELECT n, pg_current_snapshot()::text FROM counted
"""
