"""Appends lines with one statement on PostgreSQL, which also checks the token of the agent.

It is the common case: the agent holds the attempt, repeats nothing, and is within its limits. In any other case the
statement changes nothing, and `log_writer.append` does the work or refuses it.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.ids import is_valid_id
from ..records.proof import Proof
from ..storage.rows import ready_cursor
from .log_writer import BURST_SECONDS, Encoded


def append_with_token(
    proof: Proof, task_id: str, attempt: int, lines: Encoded, *, actor: Actor, offset: int | None
) -> int | None:
    """Check the token and append the lines; return the number of the next line, None if nothing was done."""
    if connections[DEFAULT_DB_ALIAS].vendor != "postgresql" or not is_valid_id(task_id) or not lines.number:
        return None
    seconds = lines.size / settings.STATECORE_TASK_LOG_BYTES_PER_SECOND
    at, cost = now(), timedelta(seconds=seconds)
    allowed = at + timedelta(seconds=max(BURST_SECONDS, seconds))
    count, size = lines.number, lines.size
    cursor = ready_cursor()
    cursor.execute(
        _build_statement(proof.sql),
        [
            task_id, attempt, actor.identity, offset, offset, *proof.params,
            count, size, at + cost, at,
            count, size, at, cost,
            offset, offset, at, cost, allowed, size, settings.STATECORE_TASK_LOG_BYTES,
            task_id, attempt, count, at, lines.body, size,
        ],
    )  # fmt: skip
    rows = cursor.fetchall()
    return int(rows[0][0]) if rows else None


@cache
def _build_statement(proof: str) -> str:
    return f"""
        WITH held AS (
            SELECT id, attempt FROM statecore_task
            WHERE id = %s AND attempt = %s AND state = 'running' AND holder = %s
            AND (coalesce(%s::bigint, 0) = 0 OR EXISTS
                (SELECT 1 FROM statecore_tasklog AS known WHERE known.task_id = id AND %s::bigint IS NOT NULL))
            AND {proof}
        ), log AS (
            INSERT INTO statecore_tasklog AS log (task_id, attempt, first, next, size, paid_until, started_at)
            SELECT id, attempt, 1, 1 + %s, %s, %s, %s FROM held
            ON CONFLICT (task_id) DO UPDATE SET
                next = log.next + %s, size = log.size + %s, paid_until = greatest(log.paid_until, %s) + %s
            WHERE log.attempt = EXCLUDED.attempt
            AND (%s::bigint IS NULL OR log.next - log.first = %s)
            AND greatest(log.paid_until, %s) + %s <= %s AND log.size + %s <= %s
            RETURNING next
        ), chunk AS (
            INSERT INTO statecore_logchunk (task_id, attempt, first, last, at, body, size)
            SELECT %s, %s, next - %s, next - 1, %s, %s, %s FROM log
        )
        SELECT next FROM log
    """
