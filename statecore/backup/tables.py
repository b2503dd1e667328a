"""The tables that go into an export as they are, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from django.apps import apps
from django.core.management.color import no_style
from django.db import connection, models

from ..journal import Event, IdempotencyRecord
from ..records import AlertNotice, BulkJob, BulkPortion, Numbering, Position, Token

CHUNK = 1_000
# The first two are the events' own files, the rest is not worth keeping or would be wrong elsewhere.
LEFT_OUT = (Event, Position, Numbering, IdempotencyRecord, AlertNotice, Token, BulkJob, BulkPortion)
Row = dict[str, Any]


def tables() -> list[type[models.Model]]:
    """Every table of the application, those between two others included."""
    found = apps.get_app_config("statecore").get_models(include_auto_created=True)
    return [model for model in found if model not in LEFT_OUT]


def rows(model: type[models.Model]) -> Iterator[Row]:
    names = [field.attname for field in model._meta.concrete_fields]
    yield from model._base_manager.order_by("pk").values(*names).iterator(chunk_size=CHUNK)


def load(model: type[models.Model], given: Iterable[Row]) -> int:
    """As they were, past everything that watches: whoever calls has lowered the triggers, and verifies afterwards."""
    fields = model._meta.concrete_fields
    return insert(
        model._meta.db_table,
        [str(field.column) for field in fields],
        ([_stored(field, row[field.attname]) for field in fields] for row in given),
    )


def _stored(field: models.Field[Any, Any], value: Any) -> Any:
    return field.get_db_prep_save(field.to_python(value), connection)


def insert(table: str, columns: list[str], given: Iterable[list[Any]]) -> int:
    names = ", ".join(connection.ops.quote_name(name) for name in columns)
    statement = f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * len(columns))})"
    waiting, count = iter(given), 0
    with connection.cursor() as cursor:
        while chunk := list(islice(waiting, CHUNK)):
            cursor.executemany(statement, chunk)
            count += len(chunk)
    return count


def continue_numbering() -> None:
    """Rows that brought their numbers with them leave PostgreSQL's own counting behind."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), tables()):
            cursor.execute(statement)
