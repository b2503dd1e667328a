"""The scan reads indexes of live rows: what has ended costs nothing, however much of it there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model, QuerySet
from django.test.utils import CaptureQueriesContext

from statecore import stuck
from statecore.kernel import registry, triggers
from statecore.kernel.clock import now
from statecore.stuck import decisions, scan
from tests.machines import worlds
from tests.support import world

pytestmark = pytest.mark.django_db

FINISHED = 20_000


def scans() -> list[tuple[str, str]]:
    flows = worlds.flows()
    return [(flow.entity_type, state) for flow in flows for state in flow.states if flow.deadline(state)]


def scan_of(entity_type: str, state: str, limit: int = 100) -> QuerySet[Any]:
    flow = registry.flow(entity_type)
    deadline = flow.deadline(state)
    assert deadline is not None
    return scan.late(flow, state, now(), deadline)[:limit]


def copied(entity: Any, rows: int, **changes: Any) -> None:
    """The same row so many times with ids of its own, past the door: who has written them does not matter here."""
    fields = [field.column for field in entity._meta.concrete_fields]
    values = ", ".join("%s" if name in changes else name for name in fields[1:])
    series = (
        "generate_series(1, %s) AS made(n)"
        if connection.vendor == "postgresql"
        else "(WITH RECURSIVE made(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM made WHERE n < %s) SELECT n FROM made)"
    )
    table = entity._meta.db_table
    with triggers.lowered(connection), connection.cursor() as cursor:
        given = [changes[name] for name in fields[1:] if name in changes]
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(fields)}) SELECT id || '-' || n, {values} FROM {table}, {series} "
            "WHERE id = %s",
            [*given, rows, entity.pk],
        )


def nodes(plan: Any) -> Iterator[dict[str, Any]]:
    for node in [plan] if isinstance(plan, dict) else plan:
        yield node
        yield from nodes(node.get("Plans", []))


def plan_of(queryset: QuerySet[Any]) -> list[dict[str, Any]]:
    return list(nodes(json.loads(queryset.explain(format="JSON", analyze=True, buffers=True))[0]["Plan"]))


def planned_as_if_big() -> None:
    """A small table is read whole, whatever indexes it has; a big one would not be."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")


def over_live_rows(entity_type: str) -> set[str]:
    """The indexes that finished rows are not in; which of them is best is for the planner to say."""
    indexes = registry.flow(entity_type).model._meta.indexes
    return {index.name for index in indexes if index.condition is not None} | {"breaker_by_state"}


@pytest.mark.postgres
@pytest.mark.parametrize(("entity_type", "state"), scans())
def test_each_scan_has_a_partial_index_to_read(entity_type: str, state: str) -> None:
    planned_as_if_big()
    table = registry.flow(entity_type).model._meta.db_table
    used = {
        node.get("Index Name", "")
        for node in plan_of(scan_of(entity_type, state))
        if node.get("Relation Name", table) == table
    }
    assert used & over_live_rows(entity_type), used


@pytest.mark.sqlite
@pytest.mark.parametrize(("entity_type", "state"), scans())
def test_each_scan_has_an_index_to_read_on_sqlite(entity_type: str, state: str) -> None:
    told = scan_of(entity_type, state).explain()
    wanted = ("_live_by_state", "_awaited_by_state", "_live_by_heartbeat", "breaker_by_state")
    assert any(f"{name} " in told for name in wanted), told


@pytest.fixture
def world_with_history(clock: Any) -> Any:
    """One task that is stuck among thousands that are completed, and a gate among thousands that were abandoned."""
    workstream = world.forced(world.workstream(), "executing")
    finished = world.forced(world.task(workstream=workstream), "completed")
    queued = world.queued_task(workstream=workstream)
    dead = world.workstream()
    abandoned, gate = world.gate(workstream=dead), world.gate(workstream=workstream)
    world.forced(dead, "failed")
    copied(finished, FINISHED)
    copied(abandoned, FINISHED)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    clock.shift(timedelta(hours=25))
    return queued, gate


@pytest.mark.postgres
def test_on_postgresql_no_scan_reads_what_has_ended(world_with_history: Any) -> None:
    queued, gate = world_with_history
    for found, (entity_type, state) in ((queued, ("task", "queued")), (gate, ("test_gate", "PENDING"))):
        queryset = scan_of(entity_type, state)
        assert [row.pk for row in queryset] == [found.pk]
        plan = plan_of(queryset)
        assert {node.get("Index Name") for node in plan} & over_live_rows(entity_type)
        assert sum(node.get("Rows Removed by Filter", 0) for node in plan) <= 1
        assert plan[0]["Shared Hit Blocks"] + plan[0]["Shared Read Blocks"] < 20


@pytest.mark.sqlite
def test_on_sqlite_no_scan_reads_what_has_ended(world_with_history: Any) -> None:
    assert "task_live_by_state" in scan_of("task", "queued").explain()
    assert "gate_awaited_by_state" in scan_of("test_gate", "PENDING").explain()
    assert steps(lambda: list(scan_of("task", "queued"))) < 2_000
    assert steps(lambda: list(scan_of("test_gate", "PENDING"))) < 2_000


def steps(work: Any) -> int:
    """How many instructions of SQLite's machine it takes, in tens."""
    counted = [0]
    connection.connection.set_progress_handler(lambda: counted.__setitem__(0, counted[0] + 1), 10)
    try:
        work()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return counted[0] * 10


@pytest.mark.sqlite
def test_looking_for_decisions_reads_indexes_on_sqlite() -> None:
    for queryset in decisions.waiting():
        told = queryset.filter(undecided_since__isnull=False).order_by("undecided_since").explain()
        assert "_live_by_state" in told
        assert "SCAN statecore" not in told.replace("SCAN statecore_workstream USING INDEX workstream_live", "")


@pytest.mark.postgres
def test_looking_for_decisions_reads_lost_parts_of_live_wholes_only(world_with_history: Any) -> None:
    for queryset in decisions.waiting():
        plan = plan_of(queryset.filter(undecided_since__isnull=False).order_by("undecided_since")[:100])
        assert plan[0]["Shared Hit Blocks"] + plan[0]["Shared Read Blocks"] < 60
        assert sum(node.get("Rows Removed by Filter", 0) for node in plan) < 10


def test_the_number_of_queries_does_not_depend_on_how_much_is_stuck(clock: Any) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert len(stuck.stuck(limit=1)) == 1
        return len(captured)

    task: Model = world.queued_task()
    clock.shift(timedelta(minutes=20))
    few = queries()
    copied(task, 500)
    assert queries() == few
