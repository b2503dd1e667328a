"""An entity as it is told: its fields, and the ids at the other end of its links."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from django.db import connection

from statecore.kernel.entity import Entity
from statecore.kernel.many import among, listed
from statecore.kernel.refusals import NotFound
from statecore.kernel.ulid import is_valid_id


def found(model: type[Entity], entity_id: str) -> Entity:
    entity: Entity | None = model.objects.filter(pk=entity_id).first() if is_valid_id(entity_id) else None
    if entity is None:
        raise NotFound(f"there is no {model.flow.entity_type} {entity_id!r}")
    return entity


def told(model: type[Entity], entities: Iterable[Entity]) -> list[dict[str, Any]]:
    return with_links(model, [entity.as_dict() for entity in entities])


def with_links(model: type[Entity], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All links of all rows by one query."""
    names = [field.name for field in model._meta.many_to_many]
    if not names or not rows:
        return rows
    by_id = {row["id"]: row for row in rows}
    for row in rows:
        row.update({name: [] for name in names})
    ids = list(by_id)
    with connection.cursor() as cursor:
        query = _query(model, connection.vendor, one=len(ids) == 1)
        cursor.execute(query, [listed(ids, connection.vendor)] * len(names))
        for name, source, target in cursor.fetchall():
            by_id[source][name].append(target)
    return rows


@cache
def _query(model: type[Entity], vendor: str, *, one: bool) -> str:
    parts = []
    for field in model._meta.many_to_many:
        through: Any = field.remote_field.through
        own, other = field.m2m_column_name(), field.m2m_reverse_name()
        chosen = among(vendor, 1 if one else 2)
        parts.append(f"SELECT '{field.name}', {own}, {other} FROM {through._meta.db_table} WHERE {own} {chosen}")
    return " UNION ALL ".join(parts) + " ORDER BY 1, 2, 3"
