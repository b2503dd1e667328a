"""Every migration after the first is safe while the previous version runs."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, models
from django.db.migrations import Migration
from django.db.migrations import operations as ops
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState, ProjectState

from statecore.records.phase import Phase
from statecore.storage.concurrent_index import AddIndexConcurrently
from tests.upgrade.migration_safety import objections

OWN_APPS = ("statecore", "dashboard", "api")
LOADER = MigrationLoader(None)
LATER = sorted(key for key in LOADER.graph.nodes if key[0] in OWN_APPS and not key[1].startswith("0001_"))


def test_every_migration_is_safe_while_the_previous_version_runs() -> None:
    found = {key: objections(LOADER.get_migration(*key), before(key)) for key in LATER}
    assert {key: why for key, why in found.items() if why} == {}


def before(key: tuple[str, str]) -> ProjectState:
    """Returns the project state before this migration."""
    return LOADER.project_state([parent.key for parent in LOADER.graph.node_map[key].parents])


STATE = ProjectState()
STATE.add_model(
    ModelState(
        "statecore",
        "Thing",
        [
            ("id", models.BigAutoField(primary_key=True)),
            ("name", models.CharField(max_length=50)),
            ("note", models.TextField(null=True)),
        ],
    )
)
INDEX = models.Index(fields=["name"], name="thing_by_name")
CHECK = models.CheckConstraint(condition=~models.Q(name=""), name="thing_named")


def check(*operations: Any, **facts: Any) -> list[str]:
    migration = type("Migration", (Migration,), {"operations": list(operations), "atomic": False, **facts})
    return objections(migration("0002_x", "statecore"), STATE)


@pytest.mark.parametrize(
    "operation",
    [
        ops.RemoveField("thing", "name"),
        ops.RenameField("thing", "name", "title"),
        ops.DeleteModel("Thing"),
        ops.RenameModel("Thing", "Object"),
        ops.AlterModelTable("Thing", "things"),
        ops.AddField("thing", "size", models.IntegerField(default=0)),
        ops.AlterField("thing", "note", models.TextField()),
        ops.AlterField("thing", "name", models.CharField(max_length=20)),
        ops.AlterField("thing", "name", models.IntegerField()),
        ops.AlterField("thing", "name", models.CharField(max_length=50, unique=True)),
        ops.AddIndex("thing", INDEX),
        ops.AddConstraint("thing", CHECK),
        ops.AlterUniqueTogether("thing", {("name",)}),
        ops.RunPython(ops.RunPython.noop),
        ops.RunSQL("SELECT 1"),
    ],
    ids=lambda operation: operation.describe(),
)
def test_an_operation_that_breaks_the_previous_version_is_refused(operation: Any) -> None:
    assert check(operation)
    assert check(operation, safe_because="nothing uses it since the last version") == []


@pytest.mark.parametrize(
    "operation",
    [
        ops.AddField("thing", "size", models.IntegerField(null=True)),
        ops.AddField("thing", "size", models.IntegerField(db_default=0)),
        ops.AlterField("thing", "name", models.CharField(max_length=100)),
        ops.AlterField("thing", "name", models.CharField(max_length=50, null=True)),
        ops.CreateModel("Other", [("id", models.BigAutoField(primary_key=True))]),
        AddIndexConcurrently("thing", INDEX),
        ops.AlterModelOptions("thing", {"ordering": ["name"]}),
    ],
    ids=lambda operation: operation.describe(),
)
def test_an_operation_that_the_previous_version_tolerates_is_accepted(operation: Any) -> None:
    assert check(operation) == []


def test_any_operation_on_a_new_table_is_accepted() -> None:
    new = ops.CreateModel("Other", [("id", models.BigAutoField(primary_key=True)), ("name", models.TextField())])
    index = models.Index(fields=["name"], name="other_by_name")
    assert check(new, ops.AddIndex("other", index)) == []


def test_a_concurrent_index_in_a_transaction_is_refused() -> None:
    assert len(check(AddIndexConcurrently("thing", INDEX), atomic=True)) == 1


@pytest.mark.django_db(transaction=True)
def test_an_index_is_built_concurrently_and_removed_again() -> None:
    forwards(BY_TITLE)
    assert "phase_by_title" in indexes()
    backwards(BY_TITLE)
    assert "phase_by_title" not in indexes()


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite builds an index as a whole or not at all")
def test_an_invalid_index_is_rebuilt() -> None:
    for name in ("PH-1", "PH-2"):
        Phase.objects.create(id=name, title="the same")
    with pytest.raises(IntegrityError), connection.cursor() as cursor:
        cursor.execute("CREATE UNIQUE INDEX CONCURRENTLY phase_by_title ON statecore_phase (title)")
    assert not is_valid("phase_by_title")

    forwards(BY_TITLE)
    assert is_valid("phase_by_title")
    backwards(BY_TITLE)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("key", [key for key in LATER if not LOADER.get_migration(*key).atomic], ids=lambda key: key[1])
def test_repeating_a_non_atomic_migration_in_either_direction_does_not_raise(key: tuple[str, str]) -> None:
    """It may have been interrupted after its last operation, before Django recorded it as applied."""
    migration, before_it = LOADER.get_migration(*key), before(key)
    for go in (migration.apply, migration.unapply, migration.unapply, migration.apply):
        with connection.schema_editor(atomic=False) as editor:
            go(before_it.clone(), editor)


BY_TITLE = AddIndexConcurrently("phase", models.Index(fields=["title"], name="phase_by_title"))


def forwards(operation: Operation) -> None:
    old, new = states(operation)
    with connection.schema_editor(atomic=False) as editor:
        operation.database_forwards("statecore", editor, old, new)


def backwards(operation: Operation) -> None:
    old, new = states(operation)
    with connection.schema_editor(atomic=False) as editor:
        operation.database_backwards("statecore", editor, new, old)


def states(operation: Operation) -> tuple[ProjectState, ProjectState]:
    old = LOADER.project_state([key for key in LOADER.graph.leaf_nodes() if key[0] == "statecore"])
    new = old.clone()
    operation.state_forwards("statecore", new)
    return old, new


def indexes() -> set[str]:
    with connection.cursor() as cursor:
        return set(connection.introspection.get_constraints(cursor, "statecore_phase"))


def is_valid(index: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = %s::regclass", [index])
        return bool(cursor.fetchone()[0])
