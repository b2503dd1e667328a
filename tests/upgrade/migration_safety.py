"""Finds operations of a migration that are unsafe while the previous version runs.

That version inserts rows without new columns, reads the old columns by name, and must not wait for a lock that is held
while a table is scanned. A migration can justify an exception with a sentence in `safe_because`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import models
from django.db.migrations import Migration
from django.db.migrations import operations as ops
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from statecore.storage.concurrent_index import AddIndexConcurrently

REMOVALS = (ops.RemoveField, ops.DeleteModel, ops.RenameField, ops.RenameModel, ops.AlterModelTable)
OPAQUE = (ops.RunPython, ops.RunSQL, ops.SeparateDatabaseAndState)
# These do not change or lock existing tables.
HARMLESS = (
    ops.CreateModel, ops.AlterModelOptions, ops.AlterModelManagers, ops.RemoveIndex, ops.RemoveConstraint,
    AddIndexConcurrently,
)  # fmt: skip


def objections(migration: Migration, before: ProjectState) -> list[str]:
    """Returns the objections to each operation, or none if the migration has `safe_because`."""
    if getattr(migration, "safe_because", ""):
        return []
    state, found = before.clone(), []
    new = {operation.name_lower for operation in migration.operations if isinstance(operation, ops.CreateModel)}
    for operation in migration.operations:
        if getattr(operation, "model_name_lower", None) not in new:
            found += [f"{operation.describe()}: {why}" for why in _objections(operation, migration, state)]
        operation.state_forwards(migration.app_label, state)
    return found


def _objections(operation: Operation, migration: Migration, state: ProjectState) -> Iterator[str]:
    if isinstance(operation, REMOVALS):
        yield "the previous version still uses it"
    elif isinstance(operation, ops.AddField):
        if not _is_optional(operation.field):
            yield "the previous version inserts rows without it: allow null, or set a db_default"
    elif isinstance(operation, ops.AlterField):
        old = state.models[migration.app_label, operation.model_name_lower].fields[operation.name_lower]
        yield from _narrower(old, operation.field)
    elif isinstance(operation, ops.AddIndex) and not isinstance(operation, AddIndexConcurrently):
        yield "it blocks writes while the index is built: use statecore.storage.concurrent_index"
    elif isinstance(operation, ops.AddConstraint):
        yield "it scans the table under a lock, and the previous version may violate it"
    elif isinstance(operation, OPAQUE):
        yield "it cannot be checked automatically: explain it in safe_because"
    elif not isinstance(operation, (*HARMLESS, ops.AddIndex)):
        yield "this kind of operation is not known to be safe"
    if isinstance(operation, AddIndexConcurrently) and migration.atomic:
        yield "PostgreSQL cannot build an index concurrently in a transaction: set atomic = False"


def _is_optional(field: Any) -> bool:
    return bool(field.many_to_many or field.null or field.db_default is not models.NOT_PROVIDED)


def _narrower(old: Any, new: Any) -> Iterator[str]:
    if type(old) is not type(new):
        yield "a changed type rewrites the table under a lock"
    if old.null and not new.null:
        yield "the previous version may write null"
    if (new.max_length or 0) < (old.max_length or 0):
        yield "the previous version may write longer values"
    if (new.unique and not old.unique) or (new.db_index and not old.db_index):
        yield "the index is built under a lock"
