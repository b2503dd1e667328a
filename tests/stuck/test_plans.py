"""The stuck scan reads indexes over active rows, so finished rows cost nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model, QuerySet
from django.test.utils import CaptureQueriesContext

from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.read_models import stuck
from statecore.read_models.stuck import decisions
from statecore.scheduling import deadlines, expectations
from tests.machines import worlds
from tests.support import world
from tests.support.plans import (
    analyze_query,
    avoid_sequential_scans,
    count_steps,
    insert_copies,
    partial_indexes,
    vacuum_tables,
)

pytestmark = pytest.mark.django_db

FINISHED = 20_000


def scans() -> list[tuple[str, str]]:
    flows = worlds.flows()
    return [(flow.entity_type, state) for flow in flows for state in flow.states if flow.deadline(state)]


def scan_of(entity_type: str, state: str, limit: int = 100) -> QuerySet[Any]:
    flow = registry.flow(entity_type)
    deadline = flow.deadline(state)
    assert deadline is not None
    return deadlines.select_past_deadline(flow, state, now(), deadline)[:limit]


@pytest.mark.postgres
@pytest.mark.parametrize(("entity_type", "state"), scans())
def test_each_scan_uses_a_partial_index_on_postgresql(entity_type: str, state: str) -> None:
    model = registry.flow(entity_type).model
    vacuum_tables(model)
    avoid_sequential_scans()
    used = {
        node.get("Index Name", "")
        for node in analyze_query(scan_of(entity_type, state))
        if node.get("Relation Name", model._meta.db_table) == model._meta.db_table
    }
    assert used & partial_indexes(entity_type), f"declare live_by_state in the Meta of {entity_type}: {used}"


@pytest.mark.sqlite
@pytest.mark.parametrize(("entity_type", "state"), scans())
def test_each_scan_uses_an_index_on_sqlite(entity_type: str, state: str) -> None:
    plan = scan_of(entity_type, state).explain()
    wanted = ("_live_by_state", "_awaited_by_state", "_live_by_heartbeat", "breaker_by_state")
    assert any(f"{name} " in plan for name in wanted), f"declare live_by_state in the Meta of {entity_type}: {plan}"


@pytest.fixture
def world_with_history(clock: Any) -> Any:
    """A stuck task among thousands of completed ones, and a gate among thousands of abandoned ones."""
    vacuum_tables()
    workstream = world.forced(world.workstream(), "executing")
    finished = world.forced(world.task(workstream=workstream), "completed")
    queued = world.queued_task(workstream=workstream)
    dead = world.workstream()
    abandoned, gate = world.gate(workstream=dead), world.gate(workstream=workstream)
    world.forced(dead, "failed")
    insert_copies(finished, FINISHED)
    insert_copies(abandoned, FINISHED)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    clock.shift(timedelta(hours=25))
    return queued, gate


@pytest.mark.postgres
def test_on_postgresql_no_scan_reads_finished_rows(world_with_history: Any) -> None:
    queued, gate = world_with_history
    for found, (entity_type, state) in ((queued, ("task", "queued")), (gate, ("test_gate", "PENDING"))):
        queryset = scan_of(entity_type, state)
        assert [row.pk for row in queryset] == [found.pk]
        plan = analyze_query(queryset)
        assert {node.get("Index Name") for node in plan} & partial_indexes(entity_type)
        own = [node for node in plan if node.get("Relation Name") == queryset.model._meta.db_table]
        assert sum(node.get("Rows Removed by Filter", 0) for node in own) <= 1
        assert plan[0]["Shared Hit Blocks"] + plan[0]["Shared Read Blocks"] < 20


@pytest.mark.sqlite
def test_on_sqlite_no_scan_reads_finished_rows(world_with_history: Any) -> None:
    assert "task_live_by_state" in scan_of("task", "queued").explain()
    assert "gate_awaited_by_state" in scan_of("test_gate", "PENDING").explain()
    assert count_steps(lambda: list(scan_of("task", "queued"))) < 2_000
    assert count_steps(lambda: list(scan_of("test_gate", "PENDING"))) < 2_000


@pytest.mark.sqlite
def test_finding_decisions_uses_indexes_on_sqlite() -> None:
    for queryset in decisions.find_undecided().values():
        plan = queryset.order_by("undecided_since").explain()
        assert "_live_by_state" in plan
        assert "SCAN statecore" not in plan.replace("SCAN statecore_workstream USING INDEX workstream_live", "")


@pytest.mark.postgres
def test_finding_decisions_reads_only_failed_parts_of_active_parents(world_with_history: Any) -> None:
    for queryset in decisions.find_undecided().values():
        plan = analyze_query(queryset.order_by("undecided_since")[:100])
        assert plan[0]["Shared Hit Blocks"] + plan[0]["Shared Read Blocks"] < 60
        assert sum(node.get("Rows Removed by Filter", 0) for node in plan) < 10


def test_the_number_of_queries_does_not_grow_with_stuck_rows(clock: Any) -> None:
    def queries() -> int:
        expectations.cache.clear()
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert len(stuck.list_stuck(limit=1)) == 1
        return len(captured)

    task: Model = world.queued_task()
    clock.shift(timedelta(minutes=20))
    few = queries()
    insert_copies(task, 500)
    assert queries() == few
