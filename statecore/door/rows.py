"""Reading a row for a change: the query of each machine is compiled once, not once per move."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

from django.db import connection, models

from ..kernel.entity import Entity
from ..kernel.refusals import NotFound


class Reader:
    """SELECT … FOR UPDATE of one machine, with what turns a database row into an instance."""

    def __init__(self, model: type[Entity]) -> None:
        self.model = model
        fields = model._meta.concrete_fields
        self.names = [field.attname for field in fields]
        self.converters = list(_converters(fields))
        quote = connection.ops.quote_name
        columns = ", ".join(quote(str(field.column)) for field in fields)
        lock = " FOR NO KEY UPDATE" if connection.vendor == "postgresql" else ""
        table = quote(model._meta.db_table)
        self.one = f"SELECT {columns} FROM {table} WHERE id = %s{lock}"
        # In the order of the ids, so that two batches over the same rows cannot lock each other out.
        among = "= ANY(%s)" if lock else "IN (SELECT value FROM json_each(%s))"
        self.many = f"SELECT {columns} FROM {table} WHERE id {among} ORDER BY id{lock}"

    def build(self, row: tuple[Any, ...]) -> Entity:
        values = list(row)
        for index, converters, expression in self.converters:
            for convert in converters:
                values[index] = convert(values[index], expression, connection)
        return self.model.from_db("default", self.names, values)


def _converters(fields: Iterable[models.Field[Any, Any]]) -> Iterable[tuple[int, list[Any], Any]]:
    for index, field in enumerate(fields):
        expression = field.get_col(field.model._meta.db_table)
        found = [
            *connection.ops.get_db_converters(expression),
            *expression.get_db_converters(connection),
        ]
        if found:
            yield index, found, expression


@cache
def _reader(model: type[Entity], vendor: str) -> Reader:
    return Reader(model)


def lock(model: type[Entity], entity_id: str) -> Entity:
    reader = _reader(model, connection.vendor)
    with connection.cursor() as cursor:
        cursor.execute(reader.one, [entity_id])
        row = cursor.fetchone()
    if row is None:
        raise NotFound(f"there is no {model.flow.entity_type} {entity_id!r}")
    return reader.build(row)


def lock_many(model: type[Entity], entity_ids: list[str]) -> list[Entity]:
    reader = _reader(model, connection.vendor)
    with connection.cursor() as cursor:
        cursor.execute(reader.many, [_array(entity_ids)])
        return [reader.build(row) for row in cursor.fetchall()]


def _array(values: list[str]) -> Any:
    """A list as the one parameter both databases can take."""
    return values if connection.vendor == "postgresql" else json.dumps(values)
