"""What an agent has to stop, read off how things stand: a lost answer loses nothing, the next one says the same.

An agent that says what it holds is told which of it is not its own (any more). One that does not say is told what was
taken from its worker, for as long as it may be at it. An earlier attempt at what it holds again is not among that:
agents may know tasks by their id alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

from django.db import connection

from ..kernel.clock import now
from ..kernel.many import among, listed

Held = tuple[str, int]  # a task, and the attempt at it
Holds = Collection[Held] | None

RECALLED = """
FROM statecore_recall AS each WHERE each.worker_id = %s AND each.until > %s AND NOT EXISTS (
  SELECT 1 FROM statecore_task AS task WHERE task.id = each.task_id AND task.worker_id = each.worker_id)
"""
STILL_ITS_OWN = "FROM statecore_task AS each WHERE each.worker_id = %s AND each.id {ids}"
PAIRS = {
    "postgresql": "json_agg(json_build_array({task}, each.attempt))::text",
    "sqlite": "json_group_array(json_array({task}, each.attempt))",
}


class Question(NamedTuple):
    """One value of a statement, with its parameters; the answer to it is read by `commands`."""

    sql: str
    params: list[Any]
    holds: Holds

    def commands(self, answer: str | None) -> list[dict[str, Any]]:
        found = {(task, attempt) for task, attempt in json.loads(answer)} if answer else set()
        to_stop = found if self.holds is None else set(self.holds) - found
        return [{"cancel": task, "attempt": attempt} for task, attempt in sorted(to_stop)]


def question(worker_id: str, holds: Holds) -> Question:
    vendor = connection.vendor
    if holds is None:
        moment: Any = connection.ops.adapt_datetimefield_value(now())
        return Question(_pairs(vendor, "each.task_id", RECALLED), [worker_id, moment], holds)
    if not holds:
        return Question("NULL", [], holds)
    tasks: Sequence[str] = sorted({task for task, _attempt in holds})
    ours = STILL_ITS_OWN.format(ids=among(vendor, len(tasks)))
    return Question(_pairs(vendor, "each.id", ours), [worker_id, listed(tasks, vendor)], holds)


@cache
def _pairs(vendor: str, task: str, source: str) -> str:
    return f"(SELECT {PAIRS[vendor].format(task=task)} {source})"


def asked_alone(asked: Question) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {asked.sql}", asked.params)
        return asked.commands(cursor.fetchone()[0])
