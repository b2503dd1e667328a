"""The inputs of a claimed task: the results of the tasks that it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import orjson
from django.db import connection

from ..kernel.fields import column
from ..machines.task import State, Task
from ..storage.sql_params import in_clause, in_param

MAX_BYTES = 8_388_608  # of all results of one claim; a single result has at most 256 kB


def read_inputs(tasks: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return the inputs by task; one query for all tasks with dependencies, and none for the others.

    A dependency has the id that the plan gave it, even if it was retried: the result is that of its newest successor
    that has completed. If the results of the claim are larger than MAX_BYTES together, the largest are null; they can
    be read from the tasks.
    """
    found: dict[str, dict[str, Any]] = {task.pk: {} for task in tasks}
    if waited := [task.pk for task in tasks if _may_depend(task)]:
        vendor = connection.vendor
        with connection.cursor() as cursor:
            cursor.execute(_inputs_sql(vendor, one=len(waited) == 1), [in_param(waited, vendor), MAX_BYTES])
            for pk, dependency, result in cursor.fetchall():
                found[pk][dependency] = None if result is None else orjson.loads(result)
    return found


def _may_depend(task: Any) -> bool:
    """The digests of its links name the links that it has; a task of an earlier version has no digests."""
    return not task.link_digests or '"depends_on"' in task.link_digests


@cache
def _inputs_sql(vendor: str, *, one: bool) -> str:
    """Return the statement. Retries lead from each linked task up to the one of the plan, and down to the newest."""
    links: Any = Task._meta.get_field("depends_on")
    task, through = Task._meta.db_table, links.remote_field.through._meta.db_table
    own, other = links.m2m_column_name(), links.m2m_reverse_name()
    retry_of, size = column(Task, "retry_of").column, "octet_length" if vendor == "postgresql" else "length"
    return f"""
        WITH RECURSIVE linked(task, dependency) AS (
            SELECT {own}, {other} FROM {through} WHERE {own} {in_clause(vendor, 1 if one else 2)}
        ), up(task, dependency, id, before) AS (
            SELECT l.task, l.dependency, t.id, t.{retry_of} FROM linked AS l JOIN {task} AS t ON t.id = l.dependency
            UNION ALL SELECT up.task, up.dependency, t.id, t.{retry_of} FROM up JOIN {task} AS t ON t.id = up.before
        ), down(task, dependency, id, depth) AS (
            SELECT task, dependency, dependency, 0 FROM linked
            UNION ALL SELECT d.task, d.dependency, t.id, d.depth + 1
            FROM down AS d JOIN {task} AS t ON t.{retry_of} = d.id
        ), found(task, id, result) AS (
            SELECT up.task, up.id, (
                SELECT t.result FROM down AS d JOIN {task} AS t ON t.id = d.id
                WHERE d.task = up.task AND d.dependency = up.dependency AND t.state = '{State.COMPLETED.value}'
                ORDER BY d.depth DESC LIMIT 1
            ) FROM up WHERE up.before IS NULL
        ), measured(task, id, result, size) AS (
            SELECT task, id, result, {size}(CAST(result AS text)) FROM found
        ), added(task, id, result, total) AS (
            SELECT task, id, result, sum(size) OVER (ORDER BY size, task, id) FROM measured
        )
        SELECT task, id, CASE WHEN total <= %s THEN result END FROM added ORDER BY task, id
    """
