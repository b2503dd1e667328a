"""Gives committed events dense positions, in an order that never puts an effect before its cause."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from django.db import IntegrityError, connection

from ...journal import commit_order
from ...journal.commit_order import EVENTS, POSITIONS, Unnumbered
from ...journal.position import Numbering
from ...records.leader_lease import Leadership
from ...storage.write_guard import allow_writes

# SQLite only, where all writers wait for this one. On PostgreSQL numbering blocks no writer and takes one snapshot.
CHUNK_SIZE = 5_000
MARK = Numbering._meta.db_table
COLUMNS = "position, event_id, entity_type, kind, severity, actor, run_id"
RUN_ID = {
    "postgresql": "coalesce(e.body::json #>> '{details,context,run_id}', '')",
    "sqlite": "coalesce(json_extract(e.body, '$.details.context.run_id'), '')",
}


class Numberer:
    """Numbers events for the leader.

    It keeps the last position, `head`, and the mark, `seen`, in memory. Its statements write only if this process
    leads, so a former leader cannot number anything.
    """

    def __init__(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self.head, self.seen = 0, ""

    def load_mark(self) -> None:
        with self.leadership.fenced():
            row = commit_order.load_numbering()
        self.head, self.seen = row.head, row.seen

    def number_new_events(self) -> int:
        """Numbers the events committed since the last call and returns their count."""
        try:
            count = self._number_on_postgresql() if connection.vendor == "postgresql" else self._number_on_sqlite()
        except IntegrityError:
            # An event already has a position, so the mark is wrong. Without a mark, only events without a position
            # are found.
            with self.leadership.fenced():
                Numbering.objects.filter(pk=1).update(seen="")
            self.load_mark()
            raise
        self.head += count
        return count

    def _number_on_postgresql(self) -> int:
        """Numbers new events and returns their count.

        It is one statement, so that the events it finds and the snapshot it stores are of the same moment. Without a
        mark, as after a restore, it scans the whole journal, so it then stores a mark even if nothing is new.
        """
        new, leadership = commit_order.select_unnumbered_since(self.seen), self.leadership
        fence = leadership.select_fence("EXISTS (SELECT 1 FROM numbered)")
        query = _NUMBER_AND_MARK.format(numbered=_select_numbered(new), fence=fence)
        # The first mark is stored without an event, which the statement does not fence.
        with nullcontext() if self.seen else leadership.fenced(), connection.cursor() as cursor:
            cursor.execute(query, [self.seen, *new.params, *leadership.fence_params])
            count, seen = cursor.fetchone()
        if count or not self.seen:
            self.seen = seen
        return int(count)

    def _number_on_sqlite(self) -> int:
        """Numbers new events and returns their count; looks for them without a lock first, to block no writer."""
        new = commit_order.select_unnumbered(self.seen)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {EVENTS} AS e WHERE {new.condition} LIMIT 1", new.params)
            if not cursor.fetchall():
                return 0
            with self.leadership.fenced(), allow_writes(connection):
                count, self.seen = self._insert_positions(cursor, new)
        return count

    def _insert_positions(self, cursor: Any, new: Unnumbered) -> tuple[int, str]:
        cursor.execute(
            f"INSERT INTO {POSITIONS} ({COLUMNS}) {_select_numbered(new, '(SELECT %s AS head) AS base')} LIMIT %s",
            [self.head, *new.params, CHUNK_SIZE],
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


def _select_numbered(new: Unnumbered, base: str = "base") -> str:
    order = commit_order.get_order_column()
    return (
        f"SELECT base.head + row_number() OVER (ORDER BY {order}), e.event_id, e.entity_type, e.kind, "
        f"e.severity, e.actor, {RUN_ID[connection.vendor]} "
        f"FROM {base}, {EVENTS} AS e WHERE {new.condition} ORDER BY {order}"
    )


# A former leader inserts nothing: it does not find its term, which the statement looks for, and then keeps, only if
# there are new events. Otherwise every poll would be a transaction that writes.
_NUMBER_AND_MARK = f"""
    WITH base AS MATERIALIZED (SELECT head FROM {MARK} WHERE id = 1 AND seen = %s),
    numbered ({COLUMNS}) AS MATERIALIZED ({{numbered}}),
    fence AS MATERIALIZED ({{fence}}),
    inserted AS (INSERT INTO {POSITIONS} ({COLUMNS}) SELECT numbered.* FROM numbered, fence RETURNING 1),
    counted AS (SELECT count(*) AS n FROM inserted),
    marked AS (
        UPDATE {MARK} SET head = head + n, seen = pg_current_snapshot()::text FROM counted
        WHERE id = 1 AND (n > 0 OR seen = '')
    )
    SELECT n, pg_current_snapshot()::text FROM counted
"""
