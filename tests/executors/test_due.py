"""Finding due gates and patches is cheap with thousands of due and waiting rows."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from statecore import transitions
from statecore.executors import due_gates, patches
from statecore.executors.due_gates import BATCH, SCAN_BATCH, SCANS
from statecore.kernel.repositories import DEFAULT
from statecore.machines.patch_ledger import State
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.storage import triggers
from tests.executors.support import executing_workstream, gate
from tests.support import world
from tests.support.plans import analyze_query, avoid_sequential_scans, count_steps, insert_copies, vacuum_tables

pytestmark = pytest.mark.django_db

MANY = 5_000


def link_copies(link: Any, task: Any, of: Any) -> None:
    """Link each copy of a task to the copy of its gate."""
    table = link.through._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} (task_id, testgate_id) SELECT id, %s || substr(id, %s) FROM statecore_task "
            f"WHERE id LIKE %s",
            [of.pk, len(task.pk) + 1, f"{task.pk}-%"],
        )


@pytest.fixture
def crowd(commands: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Thousands of due gates of each kind, and thousands that wait for a task or will never be due."""
    for scan in SCANS:
        monkeypatch.setattr(scan, "place", None)
    vacuum_tables()
    workstream, dead, validated = executing_workstream(), world.workstream(), world.workstream()
    early, left = gate(workstream=workstream), gate(workstream=dead)
    exit_, entry, own = gate(workstream=workstream), gate(workstream=workstream), gate(workstream=validated)
    done = world.forced(world.task(workstream=workstream, gates=[exit_.pk]), "validating")
    waits = world.task(workstream=workstream, entry_gates=[entry.pk])
    world.task(workstream=workstream, gates=[early.pk])
    world.forced(validated, "validating")
    world.forced(dead, "failed")
    for row in (exit_, entry, own, early, left, done, waits):
        insert_copies(row, MANY)
    link_copies(Task.gates, done, exit_)
    link_copies(Task.entry_gates, waits, entry)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return [exit_, entry, own]


def scan_queries() -> dict[str, Any]:
    found = {"interrupted": due_gates.interrupted_gates()[:BATCH], "retried": due_gates.retried_gates()[:BATCH]}
    for scan in SCANS:
        found[scan.rows.__name__] = scan.gates()
        found[f"{scan.rows.__name__}, ready or not"] = scan.gates(ready_only=False)
    return found


@pytest.mark.postgres
def test_on_postgresql_each_scan_is_bounded(crowd: list[Any]) -> None:
    avoid_sequential_scans()
    for name, query in scan_queries().items():
        plan = analyze_query(query)
        read = sum(node["Actual Rows"] * node["Actual Loops"] for node in plan)
        # All copies have the same timestamp, so a whole batch is sorted: the most expensive case.
        assert read < 5 * MANY, (name, plan)
        # One breaker for each tool, read once in a statement.
        scanned = {node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"}
        assert scanned <= {"statecore_circuitbreaker"}, (name, plan)


@pytest.mark.sqlite
def test_on_sqlite_each_scan_is_bounded(crowd: list[Any]) -> None:
    for name, query in scan_queries().items():
        assert count_steps(lambda query=query: list(query)) < 500 * SCAN_BATCH, (name, query.explain())


def test_many_waiting_gates_hide_no_due_gate(crowd: list[Any]) -> None:
    """Repeated scans return gates of every due kind, and no others."""
    rounds = 4 * MANY // SCAN_BATCH
    found = {pk for scan in SCANS for _ in range(rounds) for _since, pk in scan.read_batch(BATCH)}

    assert {kind.pk for kind in crowd for pk in found if pk.startswith(kind.pk)} == {kind.pk for kind in crowd}
    assert all(pk.startswith(tuple(kind.pk for kind in crowd)) for pk in found)


@pytest.fixture
def patch_among_abandoned() -> Any:
    """One patch to merge, and thousands of abandoned patches of finished workstreams."""
    vacuum_tables()
    due, left = (world.forced(world.patch(workstream=executing_workstream()), State.QUEUED) for _ in range(2))
    dead = world.forced(left.workstream, "failed")
    left.refresh_from_db()
    insert_copies(left, MANY)
    insert_copies(dead, MANY)
    with triggers.disabled(connection), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE statecore_patchledger SET workstream_id = %s || substr(id, %s) WHERE id LIKE %s",
            [dead.pk, len(left.pk) + 1, f"{left.pk}-%"],
        )
        cursor.execute("ANALYZE")
    return due


@pytest.mark.postgres
def test_on_postgresql_finding_patches_reads_no_abandoned_patch(patch_among_abandoned: Any) -> None:
    query = patches.unfinished_patches(DEFAULT, State.QUEUED)[: patches.BATCH]
    assert list(query) == [patch_among_abandoned.pk]
    plan = analyze_query(query)
    assert "patch_awaited_by_state" in {node.get("Index Name") for node in plan}
    assert plan[0]["Shared Hit Blocks"] + plan[0]["Shared Read Blocks"] < 20, plan


@pytest.mark.sqlite
def test_on_sqlite_finding_patches_reads_no_abandoned_patch(patch_among_abandoned: Any) -> None:
    query = patches.unfinished_patches(DEFAULT, State.QUEUED)[: patches.BATCH]
    assert count_steps(lambda: list(query)) < 2_000, query.explain()
    assert list(query) == [patch_among_abandoned.pk]


def test_due_gates_are_ordered_by_priority_and_waived_ones_are_not_due(commands: Any) -> None:
    workstream = executing_workstream()
    types = ("LINT", "INTEGRATION", "UNIT", "SECURITY", "SECURITY")
    found = [gate(workstream=workstream, gate_type=each) for each in types]
    world.forced(workstream, "validating")
    waived = found.pop()
    transitions.waive(TestGate, waived.pk, actor=world.operator(), reason=world.REASON, category="other")
    due = TestGate.objects.in_bulk(due_gates.find_due())
    assert [due[pk].gate_type for pk in due_gates.find_due()] == ["SECURITY", "INTEGRATION", "UNIT", "LINT"]
