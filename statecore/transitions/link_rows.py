"""Writes the rows of links between entities.

The row of an entity has the digests of its links among its evidence, and is written first, with its event. The triggers
then compare the links with it, all links of an entity at the end of each statement: so one statement writes them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from ..kernel.entity import Entity
from ..storage.sql_params import in_clause, in_param, list_param
from ..storage.write_guard import allow_writes

INSERT = {
    "postgresql": "INSERT INTO {table} ({own}, {other}) SELECT * FROM unnest(%s::varchar[], %s::varchar[])",
    "sqlite": (
        "INSERT INTO {table} ({own}, {other}) SELECT source.value, target.value "
        "FROM json_each(%s) AS source JOIN json_each(%s) AS target ON target.key = source.key"
    ),
}


def insert_links(
    connection: BaseDatabaseWrapper, model: type[Entity], links: Mapping[str, Mapping[str, Iterable[str]]]
) -> None:
    """Add the links of new entities, by id and link, with one statement for each link."""
    for field in model._meta.many_to_many:
        pairs = [(pk, target) for pk, given in links.items() for target in given.get(field.name, ())]
        if pairs:
            columns = [list_param(column, connection.vendor) for column in zip(*pairs, strict=True)]
            _execute(connection, INSERT[connection.vendor], field, columns)


def replace_target(connection: BaseDatabaseWrapper, link: Any, ids: Sequence[str], old: str, new: str) -> None:
    """Replace one target of a link of these entities, whose rows have the new digest already."""
    vendor = connection.vendor
    statement = f"UPDATE {{table}} SET {{other}} = %s WHERE {{other}} = %s AND {{own}} {in_clause(vendor, len(ids))}"
    _execute(connection, statement, link, [new, old, in_param(ids, vendor)])


def _execute(connection: BaseDatabaseWrapper, statement: str, link: Any, params: list[Any]) -> None:
    table = link.remote_field.through._meta.db_table
    query = statement.format(table=table, own=link.m2m_column_name(), other=link.m2m_reverse_name())
    with allow_writes(connection), connection.cursor() as cursor:
        cursor.execute(query, params)
