"""Adds to tables of counts: one row for each key, which is that of the table's unique constraint."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from django.db import connection, models

Key = tuple[Any, ...]
Counts = Mapping[Key, Any]  # the number of each key, or a list of its numbers
ROWS_PER_STATEMENT = 1_000


class Columns(NamedTuple):
    keys: tuple[str, ...]
    numbers: tuple[str, ...]


@cache
def list_columns(model: type[models.Model]) -> Columns:
    (constraint,) = model._meta.constraints
    assert isinstance(constraint, models.UniqueConstraint)  # noqa: S101
    names = [field.name for field in model._meta.concrete_fields if not field.primary_key]
    return Columns(tuple(constraint.fields), tuple(name for name in names if name not in constraint.fields))


def add_counts(model: type[models.Model], counts: Counts) -> None:
    """Adds to existing rows and inserts missing ones, in one statement for each thousand rows."""
    # Sorted by key, so that concurrent writers lock the rows in the same order.
    remaining = iter(sorted(counts.items()))
    while rows := list(islice(remaining, ROWS_PER_STATEMENT)):
        _add_rows(model, [(*key, *(given if isinstance(given, list) else [given])) for key, given in rows])


def _add_rows(model: type[models.Model], rows: list[tuple[Any, ...]]) -> None:
    (keys, numbers), table = list_columns(model), model._meta.db_table
    row = f"({', '.join(['%s'] * (len(keys) + len(numbers)))})"
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join((*keys, *numbers))}) VALUES {', '.join([row] * len(rows))} "
            f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET "
            f"{', '.join(f'{name} = {table}.{name} + excluded.{name}' for name in numbers)}",
            [value for each in rows for value in each],
        )
