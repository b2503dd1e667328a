"""Reads and serialises entities: their fields, and the ids of linked entities."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from django.db import connection

from statecore.kernel.entity import Entity
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import NotFound
from statecore.read_models.distrust import find_unverified
from statecore.storage.sql_params import in_clause, in_param


def get_entity(model: type[Entity], entity_id: str) -> Entity:
    entity: Entity | None = model.objects.filter(pk=entity_id).first() if is_valid_id(entity_id) else None
    if entity is None:
        raise NotFound(f"there is no {model.flow.entity_type} {entity_id!r}")
    return entity


def serialize_many(model: type[Entity], entities: Iterable[Entity]) -> list[dict[str, Any]]:
    """Serialise entities for reading; those whose stored data does not verify are marked as such."""
    rows = with_links(model, [entity.as_dict() for entity in entities])
    unverified = find_unverified(model.flow.entity_type)
    return [{**row, "unverified": True} if row["id"] in unverified else row for row in rows]


def with_links(model: type[Entity], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the ids of the linked entities to each row, with one query for all rows; return the same rows."""
    links = model._meta.many_to_many
    if not links or not rows:
        return rows
    by_id = {}
    for row in rows:
        by_id[row["id"]] = row
        for link in links:
            row[link.name] = []
    ids = list(by_id)
    with connection.cursor() as cursor:
        query = _query(model, connection.vendor, one=len(ids) == 1)
        cursor.execute(query, [in_param(ids, connection.vendor)] * len(links))
        for name, source, target in cursor.fetchall():
            by_id[source][name].append(target)
    return rows


@cache
def _query(model: type[Entity], vendor: str, *, one: bool) -> str:
    parts = []
    for field in model._meta.many_to_many:
        through: Any = field.remote_field.through
        own, other = field.m2m_column_name(), field.m2m_reverse_name()
        chosen = in_clause(vendor, 1 if one else 2)
        parts.append(f"SELECT '{field.name}', {own}, {other} FROM {through._meta.db_table} WHERE {own} {chosen}")
    return " UNION ALL ".join(parts) + " ORDER BY 1, 2, 3"
