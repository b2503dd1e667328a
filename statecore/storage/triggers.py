"""Database triggers that protect states, final entities and the journal from writes outside the transition service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from types import ModuleType

import orjson
from django.apps import apps
from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from ..kernel import registry
from . import postgresql_guards, sqlite_guards
from .guarded_tables import JOURNAL_ENTRY, LINK_DIGESTS, PREFIX, GuardedTable, list_guarded_tables


def install(connection: BaseDatabaseWrapper) -> None:
    """Installs every trigger. Idempotent; runs after each migrate, because rebuilding a table drops its triggers.

    The function and the triggers of a table change together: processes of the previous version may be writing.
    """
    dialect, schema = _dialect(connection), get_schema(connection)
    for guarded in list_guarded_tables(connection):
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            existing = _read_columns(cursor, guarded.table)
            if guarded.link and LINK_DIGESTS not in _read_columns(cursor, guarded.link.owners):
                continue
            for statement in dialect.build_statements(_restrict(guarded, existing), schema):
                cursor.execute(statement)
    remove(connection, keep=set(definitions(connection)))


def _read_columns(cursor: CursorWrapper, table: str) -> set[str]:
    """Django's introspection takes longer than installing the triggers."""
    cursor.execute(f"SELECT * FROM {table} LIMIT 0")
    return {column[0] for column in cursor.description}


def _restrict(guarded: GuardedTable, existing: set[str]) -> GuardedTable:
    """Returns the rules for the columns that exist: after a part of the migrations some may be missing."""
    flow = copy(guarded.flow)
    if flow is not None:
        flow.monotonic = tuple(name for name in flow.monotonic if name in existing)
        flow.frozen = {name: states for name, states in flow.frozen.items() if name in existing}
    evident = tuple(name for name in guarded.evidence if name in existing)
    is_journaled = guarded.is_journaled and JOURNAL_ENTRY in existing
    return replace(guarded, flow=flow, evidence=evident, is_journaled=is_journaled)


def remove(connection: BaseDatabaseWrapper, *, keep: set[tuple[str, str]] | None = None) -> None:
    """Removes the triggers, except those to keep."""
    with connection.cursor() as cursor:
        for name, table in sorted(installed(connection).keys() - (keep or set())):
            cursor.execute(_dialect(connection).drop(name, table))


@contextmanager
def disabled(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Removes the triggers inside the block: for restoring a backup and for emptying a test database."""
    remove(connection)
    try:
        yield
    finally:
        install(connection)


def definitions(connection: BaseDatabaseWrapper) -> dict[tuple[str, str], str]:
    """Returns the whole definition that each trigger of an existing table should have, by its name and table."""
    guarded_tables = list_guarded_tables(connection)
    return {key: text for guarded in guarded_tables for key, text in _dialect(connection).build_texts(guarded).items()}


def installed(connection: BaseDatabaseWrapper) -> dict[tuple[str, str], str]:
    """Returns the whole definition of each of these triggers in the database, by its name and table."""
    found = read_all(connection)
    return {(name, table): text for (name, table), text in found.items() if name.startswith(PREFIX)}


def read_all(connection: BaseDatabaseWrapper) -> dict[tuple[str, str], str]:
    """Returns the whole definition of every trigger on these tables, whatever created it, by its name and table."""
    with connection.cursor() as cursor:
        cursor.execute(_dialect(connection).TRIGGERS, [orjson.dumps(tables()).decode()])
        return {(name, table): text for name, table, text in cursor.fetchall()}


def tables() -> list[str]:
    """Returns the tables of this application and of every machine, with the tables of their links."""
    labels = {"statecore", *(flow.model._meta.app_label for flow in registry.flows())}
    models = apps.get_models(include_auto_created=True)
    return sorted({model._meta.db_table for model in models if model._meta.app_label in labels})


def get_schema(connection: BaseDatabaseWrapper) -> str:
    """Returns the quoted schema of the tables; empty on SQLite."""
    if connection.vendor != "postgresql":
        return ""
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema())")
        return str(cursor.fetchone()[0])


def _dialect(connection: BaseDatabaseWrapper) -> ModuleType:
    return postgresql_guards if connection.vendor == "postgresql" else sqlite_guards
