"""Stuck means no progress: entities are measured from their last sign of it, and against their own timeout."""

from __future__ import annotations

from typing import Any

import pytest

from statecore import scheduling
from statecore.kernel.clock import now
from statecore.read_models import stuck
from statecore.scheduling import deadlines
from tests.support import world

pytestmark = pytest.mark.django_db


def start(tasks: list[dict[str, Any]]) -> str:
    """Submits and starts a plan; returns a worker that has claimed its first task."""
    plan = {"phase": world.phase().pk, "start": True, "workstreams": [{"id": "w", "tasks": tasks}]}
    scheduling.submit_plan(plan, actor=world.operator())
    worker = world.idle_worker()
    scheduling.claim(worker.pk, actor=world.AGENT)
    return str(worker.pk)


def listed() -> set[str]:
    return {item.entity.pk for item in stuck.list_stuck() if item.entity.flow.entity_type in ("workstream", "task")}


def test_a_workstream_that_completes_tasks_is_not_stuck(later) -> None:
    worker = start([{"id": f"t{number}"} for number in range(8)])
    for number in range(6):
        later(minutes=25)
        task = world.model("Task").objects.get(state="running")
        report = scheduling.Report(task.pk, "execution_completed", {"attempt": 1, "exit_code": 0})
        scheduling.report_and_claim(worker, [report], actor=world.AGENT)
        assert "w" not in listed(), number
    later(minutes=61)
    assert "w" in listed()


def test_a_running_task_is_stuck_only_past_its_own_timeout(later) -> None:
    start([{"id": "t", "timeout_sec": 7_200}])
    task = world.model("Task").objects.get()
    later(minutes=90)
    assert listed() == set()
    assert deadlines.compute_overdue(task, now()) is None
    later(minutes=31)
    assert listed() == {"t", "w"}
    assert deadlines.compute_overdue(task, now()).total_seconds() == 60


def test_a_run_with_recent_work_is_not_stuck(later) -> None:
    worker = start([{"id": "t1", "timeout_sec": 86_400 * 2}, {"id": "t2"}])
    later(hours=25)
    scheduling.record_heartbeat(worker, actor=world.AGENT)
    assert [item.entity.pk for item in stuck.list_stuck(entity_type="run")] == []
    later(hours=24)
    assert [item.kind.value for item in stuck.list_stuck(entity_type="run")] == ["overdue"]


def test_a_gate_is_stuck_only_past_its_own_timeout(later) -> None:
    gate = world.fire(world.gate(timeout_sec=7_200), "gate_started", actor=world.INTEGRATOR)
    later(minutes=90)
    assert [item.entity.pk for item in stuck.list_stuck(entity_type="test_gate")] == []
    later(minutes=31)
    assert [item.entity.pk for item in stuck.list_stuck(entity_type="test_gate")] == [gate.pk]
