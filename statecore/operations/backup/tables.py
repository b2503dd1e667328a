"""Reads and writes the tables that an export contains row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.core.management.color import no_style
from django.db import connection, models

from ...journal import Event, Numbering, Position
from ...kernel import registry
from ...records import DefaultGrant

CHUNK = 1_000
# These have files of their own.
JOURNAL = (Event, Position, Numbering)
# Exports contain every other table of every application, except these on purpose.
LEFT_OUT = {
    # Browsers and lockouts: accounts log in again.
    "axes.AccessAttempt", "axes.AccessAttemptExpiration", "axes.AccessFailureLog", "axes.AccessLog", "sessions.Session",
    # What processes do at the moment. Bulk actions must not continue on restored entities without being asked.
    "dashboard.Selection", "statecore.AlertNotice", "statecore.BulkJob", "statecore.BulkPortion",
    "statecore.IdempotencyRecord", "statecore.LeaderLease", "statecore.ProcessReport", "statecore.ToolLease",
    # Logs, which are large and short-lived.
    "statecore.LogChunk", "statecore.TaskLog", "statecore.WebhookDelivery",
    # Found again by the next sweep.
    "statecore.IncidentEntity",
}  # fmt: skip
# `migrate` fills these; a restore of accounts replaces what it has filled in.
FILLED_BY_MIGRATE = {
    "auth.Group", "auth.Group_permissions", "auth.Permission", "contenttypes.ContentType", "sites.Site",
    "statecore.DefaultGrant",
}  # fmt: skip
Row = dict[str, Any]
Model = type[models.Model]


def list_tables(*, accounts: bool) -> list[Model]:
    """Returns the models of the exported tables, including many-to-many tables.

    Without accounts, these are the tables of applications with machines that refer to no account.
    """
    found = [model for model in apps.get_models(include_auto_created=True) if _is_taken(model)]
    return found if accounts else _select_without_accounts(found)


def _is_taken(model: Model) -> bool:
    meta = model._meta
    return meta.managed and not meta.proxy and model not in JOURNAL and meta.label not in LEFT_OUT


def _select_without_accounts(found: list[Model]) -> list[Model]:
    """Leaves out other applications, and repeatedly the tables that refer to what was left out."""
    ours = {"statecore", *(flow.model._meta.app_label for flow in registry.flows())}
    kept = [model for model in found if model._meta.app_label in ours and model is not DefaultGrant]
    while True:
        complete = [model for model in kept if _list_related(model) <= {*kept, *JOURNAL}]
        if complete == kept:
            return kept
        kept = complete


def _list_related(model: Model) -> set[Any]:
    return {field.related_model for field in model._meta.local_concrete_fields if field.is_relation}


def find_filled(found: list[Model]) -> Model | None:
    """Returns a table with rows that `migrate` has not put there, or None."""
    others = (model for model in found if model._meta.label not in FILLED_BY_MIGRATE)
    return next((model for model in others if model._base_manager.exists()), None)


def empty_filled_by_migrate(found: list[Model]) -> None:
    """Foreign keys are checked at the end of the transaction, when the rows of the export are there."""
    with connection.cursor() as cursor:
        for model in found:
            if model._meta.label in FILLED_BY_MIGRATE:
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(model._meta.db_table)}")
    ContentType.objects.clear_cache()


def read_rows(model: Model) -> Iterator[Row]:
    names = [field.attname for field in model._meta.local_concrete_fields]
    yield from model._base_manager.order_by("pk").values(*names).iterator(chunk_size=CHUNK)


def load_rows(model: Model, rows: Iterable[Row]) -> int:
    """Inserts rows unchanged. The caller must remove the triggers before, and verify the result afterwards."""
    fields = model._meta.local_concrete_fields
    return insert_rows(
        model._meta.db_table,
        [str(field.column) for field in fields],
        ([_to_database(field, row[field.attname]) for field in fields] for row in rows),
    )


def _to_database(field: models.Field[Any, Any], value: Any) -> Any:
    return field.get_db_prep_save(field.to_python(value), connection)


def insert_rows(table: str, columns: list[str], rows: Iterable[list[Any]]) -> int:
    names = ", ".join(connection.ops.quote_name(name) for name in columns)
    statement = f"INSERT INTO {connection.ops.quote_name(table)} ({names}) VALUES ({', '.join(['%s'] * len(columns))})"
    remaining, count = iter(rows), 0
    with connection.cursor() as cursor:
        while chunk := list(islice(remaining, CHUNK)):
            cursor.executemany(statement, chunk)
            count += len(chunk)
    return count


def reset_sequences(found: list[Model]) -> None:
    """Sets PostgreSQL's sequences to the loaded ids, which did not advance them."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), found):
            cursor.execute(statement)
