"""What runs by itself reads little, however much has ended: each sweep that Celery beat drives."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as project
from django.db import connection

from statecore import tasks
from statecore.executors import compensation, gates
from statecore.integrity import invariants
from statecore.journal import IdempotencyRecord
from statecore.kernel import triggers
from statecore.kernel.clock import now
from statecore.kernel.entity import Entity
from statecore.reactions import sweep
from statecore.records import Alert, AlertNotice, BulkJob, CompensationStep, Recall
from statecore.records.compensation_step import Action
from statecore.scheduling import breakers, timers
from statecore.stuck import abandoned
from tests.machines import worlds
from tests.support import world
from tests.support.plans import copied, each_read, planned_as_if_big, swept

pytestmark = pytest.mark.django_db

ENDED = 10_000
MOST = {"postgresql": ENDED // 4, "sqlite": 2 * ENDED}  # rows and steps; to look at each row takes three at least
# They remember where they stopped, which means nothing to another test.
WALKING = (breakers, compensation, gates, invariants, abandoned, sweep, timers)
ELSEWHERE = {
    "reconcile_counters": "counts everything, in strides: tests/sinks/test_counters.py looks at each of its queries",
    "export_journal": "writes all that is new into a file, which is what it is for",
}


@pytest.fixture
def long_past(commands: Any, work_tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of everything that has ended, and of what was left behind by something that has; and what goes on."""
    for module in WALKING:
        monkeypatch.setattr(module, "_places", {})
    monkeypatch.setattr(sweep, "FRESH", timedelta())
    swept()
    world.forced(world.workstream(run=world.forced(world.run(), "running")), "executing")
    for flow in worlds.flows():
        if flow.final:  # a breaker has no end, and there is one for each tool
            copied(ended(worlds.born(flow), min(flow.done or flow.final)), ENDED, apart=True)
    for left in (world.gate(workstream=world.workstream()), world.patch()):
        ended(left.workstream, "failed")
        copied(left, ENDED, apart=True)
    records()


def ended(one: Any, state: str) -> Any:
    """And what it belongs to."""
    one = world.forced(one, state)
    for whole in (getattr(one, name, None) for name in ("workstream", "run")):
        if isinstance(whole, Entity) and not type(whole).objects.get(pk=whole.pk).has_ended():
            world.forced(whole, "failed")
    return one


def records() -> None:
    """What the sweeps have done with long ago, and what they will have to do with one day."""
    past, future = now() - timedelta(days=1), now() + timedelta(days=1)
    worker, task, patch = world.worker(), world.task(), world.forced(world.patch(), "committed")
    alert = Alert.objects.create(rule="stuck", key="one", severity="error", detail="", opened_at=past)
    job = {"entity_type": "task", "trigger": "queue", "actor": "ada", "actor_kind": "operator", "channel": "api"}
    copied(patch, ENDED)
    step = {"ok": True, "actor": "ada", "started_at": past, "ended_at": past}
    asked = {"actor_kind": "agent", "endpoint": "/", "body_hash": "", "created_at": past}
    each: dict[Any, Any] = {
        Recall: lambda n: {"worker": worker, "task": task, "attempt": n, "until": future},
        IdempotencyRecord: lambda n: {"actor": "ada", "key": str(n), "expires_at": future, **asked},
        BulkJob: lambda n: {"id": f"job-{n}", "total": 1, "created_at": past, "finished_at": past, **job},
        AlertNotice: lambda n: {"alert": alert, "receiver": "", "next_try_at": past, "done_at": past},
        CompensationStep: lambda n: {
            "action": Action.FAILED if n % 2 else Action.REQUESTED,
            "entry_id": f"{patch.pk}-{n // 2 + 1}",
            **step,
        },
    }
    with triggers.lowered(connection):
        for model, fields in each.items():
            model.objects.bulk_create([model(**fields(n)) for n in range(ENDED)])


@pytest.mark.parametrize("analyzed", [False, True])
def test_no_query_of_a_sweep_reads_what_has_ended(long_past: None, analyzed: bool) -> None:
    """Each sweep a few times, for some go on where they stopped; whether or not the planner knows what is there."""
    if analyzed:
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    if connection.vendor == "postgresql":
        planned_as_if_big()
    reads = {
        name: max((read for _ in range(2) for read in each_read(getattr(tasks, name))), default=(0, ""))
        for name in project.SWEEPS.keys() - ELSEWHERE.keys()
    }
    assert {name: read for name, read in reads.items() if read[0] > MOST[connection.vendor]} == {}
