"""Reads and writes the tables that an export contains row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from django.apps import apps
from django.core.management.color import no_style
from django.db import connection, models

from ...journal import Event, IdempotencyRecord, Numbering, Position
from ...records import (
    AlertNotice,
    BulkJob,
    BulkPortion,
    DefaultGrant,
    IncidentEntity,
    LogChunk,
    ProcessReport,
    TaskLog,
    Token,
    ToolLease,
    Webhook,
    WebhookBacklog,
    WebhookDelivery,
)

CHUNK = 1_000
# The journal has separate files. The other tables are short-lived, like logs, or not valid in another installation,
# such as those that belong to its users.
EXCLUDED = (
    Event, Position, Numbering, IdempotencyRecord, AlertNotice, Token, ToolLease, BulkJob, BulkPortion, DefaultGrant,
    IncidentEntity, LogChunk, ProcessReport, TaskLog, Webhook, WebhookBacklog, WebhookDelivery,
)  # fmt: skip
Row = dict[str, Any]


def list_tables() -> list[type[models.Model]]:
    """Returns the models of the exported tables, including many-to-many tables."""
    found = apps.get_app_config("statecore").get_models(include_auto_created=True)
    return [model for model in found if model not in EXCLUDED]


def read_rows(model: type[models.Model]) -> Iterator[Row]:
    names = [field.attname for field in model._meta.concrete_fields]
    yield from model._base_manager.order_by("pk").values(*names).iterator(chunk_size=CHUNK)


def load_rows(model: type[models.Model], rows: Iterable[Row]) -> int:
    """Inserts rows unchanged. The caller must remove the triggers before, and verify the result afterwards."""
    fields = model._meta.concrete_fields
    return insert_rows(
        model._meta.db_table,
        [str(field.column) for field in fields],
        ([_to_database(field, row[field.attname]) for field in fields] for row in rows),
    )


def _to_database(field: models.Field[Any, Any], value: Any) -> Any:
    return field.get_db_prep_save(field.to_python(value), connection)


def insert_rows(table: str, columns: list[str], rows: Iterable[list[Any]]) -> int:
    names = ", ".join(connection.ops.quote_name(name) for name in columns)
    statement = f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * len(columns))})"
    remaining, count = iter(rows), 0
    with connection.cursor() as cursor:
        while chunk := list(islice(remaining, CHUNK)):
            cursor.executemany(statement, chunk)
            count += len(chunk)
    return count


def reset_sequences() -> None:
    """Sets PostgreSQL's sequences to the loaded ids, which did not advance them."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), list_tables()):
            cursor.execute(statement)
