"""The sweep of the invariants costs what its stretch costs, however much has ended, and whatever the planner knows."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from statecore import integrity
from statecore.integrity import invariants
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from tests.stuck.test_plans import copied, steps
from tests.support import world

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


def asked() -> list[tuple[str, Any]]:
    """What a few sweeps ask: statements and their parameters."""
    found: list[tuple[str, Any]] = []

    def kept(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        found.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(kept):
        for _ in range(SWEEPS):
            integrity.sweep_invariants(STRETCH)
    return found


def told(explain: str, sql: str, params: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(f"{explain} {sql}", params)
        return cursor.fetchall()


@pytest.mark.postgres
@pytest.mark.parametrize("analyzed", [False, True])
def test_on_postgresql_no_query_of_the_sweep_reads_what_has_ended(much_has_ended: None, analyzed: bool) -> None:
    if analyzed:
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    for query in asked():
        (([explained],),) = told("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)", *query)
        plan = explained["Plan"]
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < PAGES, (query, plan)


@pytest.mark.sqlite
def test_on_sqlite_no_query_of_the_sweep_reads_what_has_ended(much_has_ended: None) -> None:
    for query in asked():
        plan = [row[-1] for row in told("EXPLAIN QUERY PLAN", *query)]
        assert steps(lambda query=query: told("", *query)) < STEPS, (query, plan)
        assert not [step for step in plan if step.startswith("SCAN statecore") and "USING" not in step], (query, plan)
