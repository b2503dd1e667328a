"""Reading a row for a change: the query of each machine is compiled once, not once per move."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

from django.db import connection, models

from ..kernel.binary import ask_for_binary
from ..kernel.entity import Entity
from ..kernel.refusals import NotFound
from ..kernel.ulid import is_valid_id


class Reader:
    """SELECT … FOR UPDATE of one machine, with what turns a database row into an instance."""

    def __init__(self, model: type[Entity]) -> None:
        self.model = model
        fields = model._meta.concrete_fields
        self.names = [field.attname for field in fields]
        # In PostgreSQL's binary format every value arrives as Python wants it.
        self.converters = [] if connection.vendor == "postgresql" else list(_converters(fields))
        quote = connection.ops.quote_name
        columns = ", ".join(quote(str(field.column)) for field in fields)
        lock = " FOR NO KEY UPDATE" if connection.vendor == "postgresql" else ""
        table = quote(model._meta.db_table)
        self.one = f"SELECT {columns} FROM {table} WHERE id = %s{lock}"
        # In the order of the ids, so that two batches over the same rows cannot lock each other out.
        among = "= ANY(%s)" if lock else "IN (SELECT value FROM json_each(%s))"
        self.many = f"SELECT {columns} FROM {table} WHERE id {among} ORDER BY id{lock}"

    def read(self, query: str, param: Any) -> list[Entity]:
        with connection.cursor() as cursor:
            ask_for_binary(cursor)
            cursor.execute(query, [param])
            return [self._build(row) for row in cursor.fetchall()]

    def _build(self, row: tuple[Any, ...]) -> Entity:
        values = list(row)
        for index, converters, expression in self.converters:
            for convert in converters:
                values[index] = convert(values[index], expression, connection)
        return self.model.from_db("default", self.names, values)


def _converters(fields: Iterable[models.Field[Any, Any]]) -> Iterable[tuple[int, list[Any], Any]]:
    for index, field in enumerate(fields):
        expression = field.get_col(field.model._meta.db_table)
        found = [*connection.ops.get_db_converters(expression), *expression.get_db_converters(connection)]
        if found:
            yield index, found, expression


@cache
def _reader(model: type[Entity], vendor: str) -> Reader:
    return Reader(model)


def lock(model: type[Entity], entity_id: str) -> Entity:
    reader = _reader(model, connection.vendor)
    found = reader.read(reader.one, entity_id) if is_valid_id(entity_id) else []
    for entity in found:
        return entity
    raise NotFound(f"there is no {model.flow.entity_type} {entity_id!r}")


def lock_many(model: type[Entity], entity_ids: list[str]) -> list[Entity]:
    reader = _reader(model, connection.vendor)
    entity_ids = [entity_id for entity_id in entity_ids if is_valid_id(entity_id)]
    return reader.read(reader.many, entity_ids if connection.vendor == "postgresql" else json.dumps(entity_ids))
