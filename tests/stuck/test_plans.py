"""The scan reads indexes of live rows: what has ended costs nothing, however much of it there is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model, QuerySet
from django.test.utils import CaptureQueriesContext

from statecore import stuck
from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.stuck import decisions, scan
from tests.machines import worlds
from tests.support import world
from tests.support.plans import copied, over_live_rows, plan_of, planned_as_if_big, steps, swept

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


@pytest.mark.postgres
@pytest.mark.parametrize(("entity_type", "state"), scans())
def test_each_scan_has_a_partial_index_to_read(entity_type: str, state: str) -> None:
    model = registry.flow(entity_type).model
    swept(model)
    planned_as_if_big()
    used = {
        node.get("Index Name", "")
        for node in plan_of(scan_of(entity_type, state))
        if node.get("Relation Name", model._meta.db_table) == model._meta.db_table
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
    swept()
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


@pytest.mark.sqlite
def test_looking_for_decisions_reads_indexes_on_sqlite() -> None:
    for queryset in decisions.waiting().values():
        told = queryset.order_by("undecided_since").explain()
        assert "_live_by_state" in told
        assert "SCAN statecore" not in told.replace("SCAN statecore_workstream USING INDEX workstream_live", "")


@pytest.mark.postgres
def test_looking_for_decisions_reads_lost_parts_of_live_wholes_only(world_with_history: Any) -> None:
    for queryset in decisions.waiting().values():
        plan = plan_of(queryset.order_by("undecided_since")[:100])
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
