"""The cost of a check depends on its batch, not on the finished rows, older events or the planner's statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.operations.integrity import invariants, tree
from statecore.reactions import gates, tasks
from statecore.reactions.evaluation import TABLES
from tests.support import world
from tests.support.plans import (
    STATISTICS,
    explain_query,
    insert_copies,
    reads_per_statement,
    set_statistics,
    vacuum_tables,
)

# The rows are brought into their states one by one; reactions would queue the tasks first.
pytestmark = [pytest.mark.usefixtures("machines_in_isolation"), pytest.mark.django_db]

ENDED = 10_000
BATCH = 20
SWEEPS = 3
# Per query: an index lookup reads one row, and there are a few for each row of the batch.
ROWS = 10 * BATCH
# Instructions on SQLite: dozens for each row that is read.
STEPS = 100 * BATCH


@pytest.fixture
def many_finished_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and workstreams with thousands of finished parts and their links, and a few active ones."""
    monkeypatch.setattr(invariants, "_places", {})
    vacuum_tables()
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
        insert_copies(each, ENDED)
    world.forced(dead, "failed")
    world.forced(going, "validating")
    link(Task.gates, completed, gate)
    link(Task.depends_on, completed, completed)
    link(TestGate.depends_on, later_gate, gate)
    link(Workstream.depends_on, done, done)


def link(field: Any, copies_of: Any, to: Any) -> None:
    """Links every copy to the same row."""
    column = field.field
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {field.through._meta.db_table} ({column.m2m_column_name()}, {column.m2m_reverse_name()}) "
            f"SELECT id, %s FROM {copies_of._meta.db_table} WHERE id LIKE %s",
            [to.pk, f"{copies_of.pk}-%"],
        )


def sweep() -> None:
    for _ in range(SWEEPS):
        integrity.sweep_invariants(BATCH)


def exceeding(limit: int, work: Callable[[], None]) -> list[tuple[int, str]]:
    """Returns the statements that read more than the limit."""
    reads = reads_per_statement(work)
    assert reads
    return [each for each in reads if each[0] >= limit]


@pytest.mark.postgres
def test_on_postgresql_no_query_of_the_sweep_reads_finished_rows(many_finished_rows: None) -> None:
    for statistics in STATISTICS:
        set_statistics(statistics)
        assert exceeding(ROWS, sweep) == [], statistics


@pytest.mark.sqlite
def test_on_sqlite_no_query_of_the_sweep_reads_finished_rows(many_finished_rows: None) -> None:
    assert exceeding(STEPS, sweep) == []


@pytest.mark.postgres
@pytest.mark.parametrize(("model", "situation"), [(Task, tasks.SITUATION), (TestGate, gates.SITUATION)])
def test_the_situation_query_reads_no_links_of_finished_rows(
    many_finished_rows: None, model: Any, situation: str
) -> None:
    ids = list(model.objects.order_by("-pk").values_list("pk", flat=True)[:BATCH])

    def read_situation() -> None:
        with connection.cursor() as cursor:
            cursor.execute(situation.format(ids="= ANY(%s)", **TABLES), [ids])

    for statistics in ("never analyzed", "vacuumed and not analyzed", "up to date"):
        set_statistics(statistics)
        assert exceeding(ROWS, read_situation) == [], statistics


@pytest.mark.postgres
def test_verifying_a_large_range_of_the_tree_reads_only_events_within_its_bounds() -> None:
    # Without nested loops, which a range of thousands makes too expensive.
    plan = explain_query(tree.ON_POSTGRESQL, [1, tree.RANGE_SIZE, "evt_01", "evt_02"], without=("nestloop",))

    assert "(event_id)::text >= 'evt_01'" in plan, plan
    assert "(event_id)::text <= 'evt_02'" in plan, plan
    assert "Seq Scan on statecore_event" not in plan, plan
