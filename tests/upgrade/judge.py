"""Whether a migration may run while the previous version of the program still does.

That version writes rows without the new columns, reads the old ones by their names, and must not wait for a lock
that is held as long as a table is read. A migration that knows better carries `safe_because`, a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import models
from django.db.migrations import Migration
from django.db.migrations import operations as ops
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from statecore.kernel.concurrent_index import AddIndexConcurrently

TAKES_AWAY = (ops.RemoveField, ops.DeleteModel, ops.RenameField, ops.RenameModel, ops.AlterModelTable)
UNREADABLE = (ops.RunPython, ops.RunSQL, ops.SeparateDatabaseAndState)
# Names, texts and rights, of which the tables know nothing.
HARMLESS = (
    ops.CreateModel, ops.AlterModelOptions, ops.AlterModelManagers, ops.RemoveIndex, ops.RemoveConstraint,
    AddIndexConcurrently,
)  # fmt: skip


def objections(migration: Migration, before: ProjectState) -> list[str]:
    """What speaks against it, operation by operation; nothing where it says why it is safe."""
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
    if isinstance(operation, TAKES_AWAY):
        yield "the version that still runs asks for it"
    elif isinstance(operation, ops.AddField):
        if not _may_be_left_out(operation.field):
            yield "the version that still runs writes rows without it: let it be null, or give it a db_default"
    elif isinstance(operation, ops.AlterField):
        old = state.models[migration.app_label, operation.model_name_lower].fields[operation.name_lower]
        yield from _narrower(old, operation.field)
    elif isinstance(operation, ops.AddIndex) and not isinstance(operation, AddIndexConcurrently):
        yield "the table cannot be written to while it is built: use statecore.kernel.concurrent_index"
    elif isinstance(operation, ops.AddConstraint):
        yield "the whole table is read under a lock, and the version that still runs does not know of it"
    elif isinstance(operation, UNREADABLE):
        yield "nobody can judge it by its looks: say why in safe_because"
    elif not isinstance(operation, (*HARMLESS, ops.AddIndex)):
        yield "it is of a kind that nobody has judged yet"
    if isinstance(operation, AddIndexConcurrently) and migration.atomic:
        yield "PostgreSQL builds no index beside writers within a transaction: atomic = False"


def _may_be_left_out(field: Any) -> bool:
    return bool(field.many_to_many or field.null or field.db_default is not models.NOT_PROVIDED)


def _narrower(old: Any, new: Any) -> Iterator[str]:
    if type(old) is not type(new):
        yield "another type rewrites the table under a lock"
    if old.null and not new.null:
        yield "what was null may be written as null by the version that still runs"
    if (new.max_length or 0) < (old.max_length or 0):
        yield "what is longer may be written by the version that still runs"
    if (new.unique and not old.unique) or (new.db_index and not old.db_index):
        yield "its index is built under a lock"
