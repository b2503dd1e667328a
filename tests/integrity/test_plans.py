"""The sweep of the invariants costs what its stretch costs, however much has ended, and whatever the planner knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from statecore import integrity
from statecore.integrity import invariants
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.reactions import gates, tasks
from statecore.reactions.look import TABLES
from tests.support import world
from tests.support.plans import copied, nodes, steps, swept

pytestmark = pytest.mark.django_db

ENDED = 10_000
STRETCH = 20
SWEEPS = 3
# Of a query: a look into an index is three or four pages, and a table of so many rows hundreds.
PAGES = 12 * STRETCH
# On SQLite, of its machine: dozens for each row that is looked at.
STEPS = 100 * STRETCH


@pytest.fixture
def much_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wholes of which thousands of parts have ended, well or badly, with all their links; and a few that go on."""
    monkeypatch.setattr(invariants, "_places", {})
    swept()
    run = world.forced(world.run(), "running")
    going, done, dead = (world.workstream(run=run) for _ in range(3))
    gate, later_gate = world.gate(workstream=going), world.gate(workstream=going)
    for state in ("queued", "validating", "blocked"):
        world.forced(world.task(workstream=going, gates=[gate.pk]), state)
    completed = world.forced(world.task(workstream=going), "completed")
    for each in (
        completed,
        world.forced(world.task(workstream=dead, is_critical=True), "failed"),
        world.forced(world.patch(workstream=dead), "quarantined"),
        world.forced(world.idle_worker(), "shutdown"),
        world.forced(gate, "PASSED"),
        world.forced(later_gate, "FAILED"),
        world.forced(done, "completed"),
    ):
        copied(each, ENDED)
    world.forced(dead, "failed")
    world.forced(going, "validating")
    link(Task.gates, completed, gate)
    link(Task.depends_on, completed, completed)
    link(TestGate.depends_on, later_gate, gate)
    link(Workstream.depends_on, done, done)


def link(field: Any, copies_of: Any, to: Any) -> None:
    """Each copy to the same one."""
    column = field.field
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {field.through._meta.db_table} ({column.m2m_column_name()}, {column.m2m_reverse_name()}) "
            f"SELECT id, %s FROM {copies_of._meta.db_table} WHERE id LIKE %s",
            [to.pk, f"{copies_of.pk}-%"],
        )


def asked(sweep: Callable[[], Any]) -> list[tuple[str, Any]]:
    """What a sweep asks a few times over: statements and their parameters."""
    found: list[tuple[str, Any]] = []

    def kept(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if sql.startswith("SELECT"):
            found.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(kept):
        for _ in range(SWEEPS):
            sweep()
    return found


def analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def plan_of(query: tuple[str, Any]) -> dict[str, Any]:
    (([explained],),) = told("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)", *query)
    return explained["Plan"]


def sweep() -> None:
    integrity.sweep_invariants(STRETCH)


def told(explain: str, sql: str, params: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(f"{explain} {sql}", params)
        return cursor.fetchall()


@pytest.mark.postgres
@pytest.mark.parametrize("analyzed", [False, True])
def test_on_postgresql_no_query_of_the_sweep_reads_what_has_ended(much_has_ended: None, analyzed: bool) -> None:
    if analyzed:
        analyze()
    for query in asked(sweep):
        plan = plan_of(query)
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < PAGES, (query, plan)


@pytest.mark.sqlite
def test_on_sqlite_no_query_of_the_sweep_reads_what_has_ended(much_has_ended: None) -> None:
    for query in asked(sweep):
        plan = [row[-1] for row in told("EXPLAIN QUERY PLAN", *query)]
        assert steps(lambda query=query: told("", *query)) < STEPS, (query, plan)
        assert not [step for step in plan if step.startswith("SCAN statecore") and "USING" not in step], (query, plan)


@pytest.mark.postgres
@pytest.mark.parametrize("analyzed", [False, True])
def test_who_may_move_is_asked_without_reading_the_links_of_what_has_ended(
    much_has_ended: None, analyzed: bool
) -> None:
    if analyzed:
        analyze()
    for model, situation in ((Task, tasks.SITUATION), (TestGate, gates.SITUATION)):
        ids = list(model.objects.order_by("-pk").values_list("pk", flat=True)[:STRETCH])
        query = (situation.format(ids="= ANY(%s)", **TABLES), [ids])
        assert rows_read(plan_of(query)) < 20 * STRETCH, told("EXPLAIN", *query)


def rows_read(plan: dict[str, Any]) -> int:
    return sum(
        node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
        for node in nodes(plan)
        if "Relation Name" in node
    )
