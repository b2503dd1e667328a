"""Commands to an agent to stop tasks.

The commands are derived from the current rows, so a lost response loses nothing: the next heartbeat repeats them.

If the heartbeat lists the tasks in progress, the agent must stop those that its worker no longer holds. If it does not,
the agent must stop all tasks that were recently recalled from the worker, except for those that the worker holds again
with a later attempt: such an agent may identify tasks by id alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

from django.db import connection

from ..kernel.clock import now
from ..storage.sql_params import in_clause, in_param

TaskAttempt = tuple[str, int]
Holds = Collection[TaskAttempt] | None

RECALLED = """
FROM statecore_recall AS each WHERE each.worker_id = %s AND each.until > %s AND NOT EXISTS (
  SELECT 1 FROM statecore_task AS task WHERE task.id = each.task_id AND task.worker_id = each.worker_id)
"""
STILL_HELD = "FROM statecore_task AS each WHERE each.worker_id = %s AND each.id {ids}"
PAIRS = {
    "postgresql": "json_agg(json_build_array({task}, each.attempt))::text",
    "sqlite": "json_group_array(json_array({task}, each.attempt))",
}


class StopQuery(NamedTuple):
    """A scalar subquery with its parameters; `parse` turns its value into commands."""

    sql: str
    params: list[Any]
    holds: Holds

    def parse(self, value: str | None) -> list[dict[str, Any]]:
        found = {(task, attempt) for task, attempt in json.loads(value)} if value else set()
        to_stop = found if self.holds is None else set(self.holds) - found
        return [{"cancel": task, "attempt": attempt} for task, attempt in sorted(to_stop)]

    def run(self) -> list[dict[str, Any]]:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {self.sql}", self.params)
            return self.parse(cursor.fetchone()[0])


def build_stop_query(worker_id: str, holds: Holds) -> StopQuery:
    vendor = connection.vendor
    if holds is None:
        at: Any = connection.ops.adapt_datetimefield_value(now())
        return StopQuery(_select_pairs(vendor, "each.task_id", RECALLED), [worker_id, at], holds)
    if not holds:
        return StopQuery("NULL", [], holds)
    tasks: Sequence[str] = sorted({task for task, _attempt in holds})
    source = STILL_HELD.format(ids=in_clause(vendor, len(tasks)))
    return StopQuery(_select_pairs(vendor, "each.id", source), [worker_id, in_param(tasks, vendor)], holds)


@cache
def _select_pairs(vendor: str, task: str, source: str) -> str:
    return f"(SELECT {PAIRS[vendor].format(task=task)} {source})"
