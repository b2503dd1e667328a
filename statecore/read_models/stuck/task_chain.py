"""Finds the end of a long chain of waiting tasks in one query."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection

from ...kernel.entity import Entity
from ...machines.task import FINAL, WAITING, Task
from ...reactions.evaluation import format_query, has_linked
from ...storage.links import cached_for_batch
from ...storage.sql_params import in_param, quote_states

MAX_LENGTH = 20_000  # of one query; the next one continues from its end
FAILED = "other.state = 'FAILED'"
# Steps from a waiting task to the dependency that `find_wait` would choose. A failed gate is named before any task, so
# a task with a failed gate ends the chain.
CHAIN = f"""
WITH RECURSIVE chain (start, id, length) AS (
  SELECT CAST(id AS text), CAST(id AS text), 0 FROM {{tasks}} WHERE id {{ids}}
  UNION ALL SELECT chain.start, (
    SELECT CAST(other.id AS text)
    FROM {{task_dependencies}} AS link JOIN {{tasks}} AS other ON other.id = link.to_task_id
    WHERE link.from_task_id = chain.id AND other.state <> 'completed'
    ORDER BY CASE WHEN other.state IN ({quote_states(FINAL)}) THEN 0 WHEN other.state = 'blocked' THEN 1 ELSE 2 END,
      other.state_entered_at, other.id LIMIT 1
  ), chain.length + 1 FROM chain JOIN {{tasks}} AS here ON here.id = chain.id
  WHERE here.state IN ({quote_states(WAITING)}) AND chain.length < %s
  AND NOT {has_linked("here", "exit_gates.task_id", "gates.testgate_id", FAILED)}
  AND NOT {has_linked("here", "entry_gates.task_id", "gates.testgate_id", FAILED)})
SELECT start, id, length FROM (
  SELECT start, id, length, row_number() OVER (PARTITION BY start ORDER BY length DESC) AS place
  FROM chain WHERE id IS NOT NULL) AS ends
WHERE place = 1 AND length > 0
"""  # noqa: S608 - names of our own tables


class ChainEnd(NamedTuple):
    task: Task
    skipped: int  # tasks in between


def find_chain_end(entity: Entity) -> ChainEnd | None:
    """Returns the last task of the chain that starts here; None if there is no chain. A batch shares one query."""
    if not isinstance(entity, Task):
        return None
    return cached_for_batch(entity, find_chain_end, _find_ends).get(entity.pk)


def _find_ends(ids: list[str]) -> dict[str, ChainEnd]:
    with connection.cursor() as cursor:
        cursor.execute(format_query(CHAIN, one=len(ids) == 1), [in_param(ids, connection.vendor), MAX_LENGTH])
        found = cursor.fetchall()
    tasks = Task.objects.in_bulk({pk for _start, pk, _length in found})
    return {start: ChainEnd(tasks[pk], length - 1) for start, pk, length in found}
