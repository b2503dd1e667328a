"""A task whose agent is alive, and whose progress has not changed for its limit, is listed as stuck as such."""

from __future__ import annotations

from typing import Any

import pytest
import time_machine
from django.test import Client
from django.urls import reverse

from statecore import scheduling
from statecore.dashboard.queries.liveness import read_liveness
from statecore.kernel.clock import now
from statecore.machines.task import Task
from statecore.operations.incidents import sweep
from statecore.read_models.board import task_progress
from statecore.read_models.stuck import list_stuck
from statecore.read_models.stuck.listing import Kind, count_stuck
from statecore.records import Incident
from tests.api.callers import Caller, expect_ok
from tests.logs.writing import start_task

pytestmark = pytest.mark.django_db


@pytest.fixture
def clock(settings: Any) -> Any:
    settings.STATECORE_PROGRESS_SECONDS = 600
    with time_machine.travel("2026-01-01T00:00:00Z", tick=False) as moved:
        yield moved


def report(agent: Caller, minutes: int, clock: Any, *, fraction: float | None = None, whole: bool = True) -> None:
    """Lets time pass with a heartbeat each minute; each reports the same progress, if any."""
    progress = None if fraction is None else {"fraction": fraction, "detail": "unpacking"}
    for _minute in range(minutes):
        clock.shift(60)
        if whole:
            body = {"tasks": [{"id": "t", "attempt": 1, "progress": progress}]}
            expect_ok(agent.post("workers/t-worker/heartbeat/", body))
        else:
            expect_ok(agent.post("tasks/t/heartbeat/", {"attempt": 1, "progress": progress}))


def listed() -> list[tuple[str, str]]:
    assert sum(count_stuck(now()).values()) == len(list_stuck())
    return [(item.kind.value, item.why) for item in list_stuck() if item.entity.flow.entity_type == "task"]


@pytest.mark.parametrize("whole", [True, False])
def test_progress_that_does_not_change_makes_a_task_stuck_and_new_progress_ends_it(clock: Any, *, whole: bool) -> None:
    agent = Caller(name="agent-1")
    start_task(agent, timeout_sec=7200)
    report(agent, 10, clock, fraction=0.5, whole=whole)
    assert listed() == []
    report(agent, 3, clock, fraction=0.5, whole=whole)
    assert listed() == [("no progress", "running 13 min: alive, but no progress for 12 min")]
    (item,) = [item for item in list_stuck() if item.kind is Kind.NO_PROGRESS]
    assert item.as_dict()["since"] == "2026-01-01T00:01:00.000000Z"
    liveness = read_liveness(Task.objects.get(), now())
    assert liveness is not None
    assert liveness.unchanged_for is not None
    report(agent, 1, clock, fraction=0.6, whole=whole)
    assert listed() == []
    assert Task.objects.get().progress["since"] == "2026-01-01T00:14:00.000000Z"


def test_a_task_may_have_a_limit_of_its_own_that_counts_from_its_start(clock: Any) -> None:
    agent = Caller(name="agent-1")
    start_task(agent, timeout_sec=7200, progress_timeout_sec=120)
    report(agent, 3, clock)
    assert [kind for kind, _why in listed()] == ["no progress"]


def test_without_a_report_or_without_a_limit_a_task_is_not_stuck(clock: Any, settings: Any) -> None:
    agent = Caller(name="agent-1")
    start_task(agent, timeout_sec=7200)
    report(agent, 20, clock)
    settings.STATECORE_PROGRESS_SECONDS = 0
    report(agent, 20, clock, fraction=0.1)
    assert listed() == []


def test_the_pages_show_it(clock: Any, client: Client) -> None:
    agent = Caller(name="agent-1")
    start_task(agent, timeout_sec=7200)
    report(agent, 13, clock, fraction=0.5)
    client.force_login(agent.user)
    sweep()
    incident = reverse("console:incident", args=[Incident.objects.get().pk])
    for page in (reverse("console:incidents"), incident, reverse("console:liveness", args=["tasks", "t"])):
        assert "alive, but no progress for 12 min" in client.get(page).content.decode()
    working = client.get(reverse("console:run_working", args=["t-r"])).content.decode()
    assert "no progress for 12 min" in working
    task_progress.cache.clear()
    wall = client.get(reverse("console:wall")).content.decode()
    assert '<b data-figure="progress.percent">50</b> % done' in wall


def test_a_heartbeat_of_another_attempt_changes_nothing(clock: Any) -> None:
    agent = Caller(name="agent-1")
    start_task(agent)
    progress = {("t", 2): {"fraction": 0.5, "detail": ""}}
    scheduling.record_heartbeat("t-worker", actor=agent.token.as_agent(), progress=progress)
    assert Task.objects.get().progress_due_at is None
