"""A long line: entities of one machine that have not begun, each of which waits for the one before it."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from django.core.exceptions import FieldDoesNotExist
from django.db import connection

from ..kernel.entity import Entity
from ..kernel.many import quoted

MOST = 20_000  # of one line; a plan has fewer


class End(NamedTuple):
    entity: Entity
    skipped: int  # who stand between


def end_of_line(entity: Entity) -> End | None:
    """Who stands at the end of the line that begins here, asked at once, however long it is; None where none begins."""
    query = _query(type(entity))
    if query is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute(query, [entity.pk, MOST])
        pk, length = cursor.fetchone()
    return End(type(entity)._base_manager.get(pk=pk), length - 1) if length else None


@cache
def _query(model: type[Entity]) -> str | None:
    """Of several it goes on with the one that `first_wait` names."""
    about: Any = model._meta
    try:
        field = about.get_field("depends_on")
    except FieldDoesNotExist:
        return None
    flow, table, through = model.flow, about.db_table, field.remote_field.through._meta.db_table
    awaited = (
        f"SELECT CAST(target.id AS text) FROM {through} AS link "  # noqa: S608 - names of our own tables
        f"JOIN {table} AS target ON target.id = link.{field.m2m_reverse_name()} "
        f"WHERE link.{field.m2m_column_name()} = line.id AND target.state NOT IN ({quoted(flow.done)}) "
        f"ORDER BY CASE WHEN target.state IN ({quoted(flow.final)}) THEN 0 WHEN lower(target.state) = 'blocked' THEN 1 "
        "ELSE 2 END, target.state_entered_at, target.id LIMIT 1"
    )
    return (
        f"WITH RECURSIVE line (id, length) AS (SELECT CAST(id AS text), 0 FROM {table} WHERE id = %s "  # noqa: S608
        f"UNION ALL SELECT ({awaited}), length + 1 FROM line JOIN {table} AS here ON here.id = line.id "
        f"WHERE here.state = '{flow.initial}' AND length < %s) "
        "SELECT id, length FROM line WHERE id IS NOT NULL ORDER BY length DESC LIMIT 1"
    )
