"""A long line of tasks, each of which waits for the one before it."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection

from ..kernel.entity import Entity
from ..kernel.links import alike, once
from ..kernel.many import listed, quoted
from ..machines.task import FINAL, WAITING, Task
from ..reactions.look import asked, linked

MOST = 20_000  # at a time: from there on the line is asked for again
FAILED = "other.state = 'FAILED'"
# From one that waits to the one that `first_wait` would name, and on. A failed gate is named before any task: who has
# one is the end.
LINE = f"""
WITH RECURSIVE line (start, id, length) AS (
  SELECT CAST(id AS text), CAST(id AS text), 0 FROM {{tasks}} WHERE id {{ids}}
  UNION ALL SELECT line.start, (
    SELECT CAST(other.id AS text)
    FROM {{task_dependencies}} AS link JOIN {{tasks}} AS other ON other.id = link.to_task_id
    WHERE link.from_task_id = line.id AND other.state <> 'completed'
    ORDER BY CASE WHEN other.state IN ({quoted(FINAL)}) THEN 0 WHEN other.state = 'blocked' THEN 1 ELSE 2 END,
      other.state_entered_at, other.id LIMIT 1
  ), line.length + 1 FROM line JOIN {{tasks}} AS here ON here.id = line.id
  WHERE here.state IN ({quoted(WAITING)}) AND line.length < %s
  AND NOT {linked("here", "exit_gates.task_id", "gates.testgate_id", FAILED)}
  AND NOT {linked("here", "entry_gates.task_id", "gates.testgate_id", FAILED)})
SELECT start, id, length FROM (
  SELECT start, id, length, row_number() OVER (PARTITION BY start ORDER BY length DESC) AS place
  FROM line WHERE id IS NOT NULL) AS ends
WHERE place = 1 AND length > 0
"""  # noqa: S608 - names of our own tables


class End(NamedTuple):
    task: Task
    skipped: int  # how many stand between


def end_of_line(entity: Entity) -> End | None:
    """Who stands at the end of the line that begins here; None where none begins. Asked for a whole batch at once."""
    if not isinstance(entity, Task):
        return None
    return once(end_of_line, lambda: _ends(alike(entity))).get(entity.pk)


def _ends(ids: list[str]) -> dict[str, End]:
    with connection.cursor() as cursor:
        cursor.execute(asked(LINE, one=len(ids) == 1), [listed(ids, connection.vendor), MOST])
        found = cursor.fetchall()
    tasks = Task.objects.in_bulk({pk for _start, pk, _length in found})
    return {start: End(tasks[pk], length - 1) for start, pk, length in found}
