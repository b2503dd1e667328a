"""Reads entities with SQL that is built once per machine."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection, models

from ..kernel.entity import Entity
from ..kernel.refusals import NotFound
from ..storage.rows import RowReader, ready_cursor
from ..storage.sql_params import in_clause


class EntityReader(RowReader):
    """The SELECT statements of one machine."""

    def __init__(self, model: type[Entity], vendor: str) -> None:
        fields = model._meta.concrete_fields
        super().__init__(model, fields, vendor)
        quote = connection.ops.quote_name
        columns = ", ".join(quote(str(field.column)) for field in fields)
        self.lock_clause = " FOR NO KEY UPDATE" if vendor == "postgresql" else ""
        self.table = quote(model._meta.db_table)
        self.lock_one = f"SELECT {columns} FROM {self.table} WHERE id = %s{self.lock_clause}"
        # Ordered by id, so that two batches over the same rows cannot deadlock.
        self.lock_many = (
            f"SELECT {columns} FROM {self.table} WHERE id {in_clause(vendor, 2)} ORDER BY id{self.lock_clause}"
        )
        # xmin names the transaction that last wrote the row: a different one means that the row was changed.
        self.unlocked = f"SELECT {columns}, xmin::text FROM {self.table} WHERE id = %s"
        # For statements that name the table `row` themselves.
        self.row_columns = ", ".join(f"row.{quote(str(field.column))}" for field in fields)


@cache
def reader_of(model: type[Entity], vendor: str) -> EntityReader:
    return EntityReader(model, vendor)


@cache
def list_reader_of(model: type[Entity], vendor: str) -> RowReader:
    return RowReader(
        model, [each for each in model._meta.concrete_fields if each.name not in model.detail_only], vendor
    )


def read_entities(chosen: models.QuerySet[Any]) -> list[Any]:
    """Fetch entities for a list, without the columns of their detail, in a third of the time that Django takes."""
    try:
        query, params = chosen.defer(*chosen.model.detail_only).query.sql_with_params()
    except EmptyResultSet:
        return []
    cursor = ready_cursor()
    cursor.execute(query, params)
    model: type[Entity] = chosen.model
    build = list_reader_of(model, connection.vendor).build
    return [build(row) for row in cursor.fetchall()]


def not_found(model: type[Entity], entity_id: str) -> NotFound:
    return NotFound(f"there is no {model.flow.entity_type} {entity_id!r}")
