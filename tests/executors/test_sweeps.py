"""The sweeps scheduled by Celery beat read few rows, even with thousands of finished ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as project
from django.db import connection

from statecore import tasks
from statecore.executors import compensation, gates
from statecore.journal import IdempotencyRecord
from statecore.kernel.clock import now
from statecore.kernel.entity import Entity
from statecore.operations.integrity import invariants
from statecore.reactions import abandoned, sweep
from statecore.records import Alert, AlertNotice, BulkJob, CompensationStep, Recall, TaskAttempt
from statecore.records.compensation_step import Action
from statecore.scheduling import breakers, timers
from statecore.storage import triggers
from tests.machines import worlds
from tests.support import world
from tests.support.plans import (
    avoid_sequential_scans,
    insert_copies,
    reads_per_statement,
    set_statistics,
    vacuum_tables,
)

pytestmark = pytest.mark.django_db

ENDED = 10_000
# Rows, or steps: reading each finished row takes at least three, and a batch of 200 tasks takes a step per column.
MOST = {"postgresql": ENDED // 4, "sqlite": 5 * ENDED // 2}
# These modules remember where their last scan stopped; each test starts without that.
SCANNING = (breakers, compensation, gates, invariants, abandoned, sweep, timers)
ELSEWHERE = {
    "reconcile_counters": "counts everything, in batches: tests/sinks/test_counters.py checks each query",
    "export_journal": "writes all new events into a file, by design",
}


@pytest.fixture
def long_past(commands: Any, work_tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of finished rows of each machine, thousands of abandoned gates and patches, and one active run."""
    for module in SCANNING:
        monkeypatch.setattr(module, "_places", {})
    monkeypatch.setattr(sweep, "FRESH", timedelta())
    vacuum_tables()
    world.forced(world.workstream(run=world.forced(world.run(), "running")), "executing")
    for flow in worlds.flows():
        if flow.final:  # breakers have no final state, and there is only one per tool
            insert_copies(end_with_parents(worlds.create_entity(flow), min(flow.done or flow.final)), ENDED, apart=True)
    for left in (world.gate(workstream=world.workstream()), world.patch()):
        end_with_parents(left.workstream, "failed")
        insert_copies(left, ENDED, apart=True)
    create_records()


def end_with_parents(entity: Any, state: str) -> Any:
    """Force the entity to the state, and its workstream and run to failed."""
    entity = world.forced(entity, state)
    for parent in (getattr(entity, name, None) for name in ("workstream", "run")):
        if isinstance(parent, Entity) and not type(parent).objects.get(pk=parent.pk).has_ended():
            world.forced(parent, "failed")
    return entity


def create_records() -> None:
    """Create records that the sweeps handled long ago, and records that are not due yet."""
    past, future = now() - timedelta(days=1), now() + timedelta(days=1)
    worker, task, patch = world.worker(), world.task(), world.forced(world.patch(), "committed")
    alert = Alert.objects.create(rule="stuck", key="one", severity="error", detail="", opened_at=past)
    job = {"entity_type": "task", "trigger": "queue", "actor": "ada", "actor_kind": "operator", "channel": "api"}
    insert_copies(patch, ENDED)
    step = {"ok": True, "actor": "ada", "started_at": past, "ended_at": past}
    request = {"actor_kind": "agent", "endpoint": "/", "body_hash": "", "created_at": past}
    each: dict[Any, Any] = {
        Recall: lambda n: {"worker": worker, "task": task, "attempt": n, "until": future},
        TaskAttempt: lambda n: {"task": task, "attempt": n, "started_at": past, "ended_at": past},
        IdempotencyRecord: lambda n: {"actor": "ada", "key": str(n), "expires_at": future, **request},
        BulkJob: lambda n: {"id": f"job-{n}", "total": 1, "created_at": past, "finished_at": past, **job},
        AlertNotice: lambda n: {"alert": alert, "receiver": "", "next_try_at": past, "done_at": past},
        CompensationStep: lambda n: {
            "action": Action.FAILED if n % 2 else Action.REQUESTED,
            "entry_id": f"{patch.pk}-{n // 2 + 1}",
            **step,
        },
    }
    with triggers.disabled(connection):
        for model, fields in each.items():
            model.objects.bulk_create([model(**fields(n)) for n in range(ENDED)])


def test_no_query_of_a_sweep_reads_finished_rows(long_past: None) -> None:
    """Run each sweep twice, because some resume where they stopped, with and without planner statistics."""
    for statistics in ("vacuumed and not analyzed", "up to date"):
        if connection.vendor == "postgresql":
            set_statistics(statistics)
            avoid_sequential_scans()
        elif statistics == "up to date":
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE")
        reads = {
            name: max((read for _ in range(2) for read in reads_per_statement(getattr(tasks, name))), default=(0, ""))
            for name in project.SWEEPS.keys() - ELSEWHERE.keys()
        }
        assert {name: read for name, read in reads.items() if read[0] > MOST[connection.vendor]} == {}, statistics
