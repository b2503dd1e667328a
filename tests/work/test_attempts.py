"""Every attempt at a task is kept with its worker, times, error and output, and the next claim reports it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from statecore import transitions
from statecore.api.claims import ClaimFields, claim_once
from statecore.kernel import clock
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.read_models.attempts import list_attempts
from statecore.records import TaskAttempt, task_attempt
from statecore.scheduling import register, submit_plan, timers
from tests.api.callers import Caller, expect_ok
from tests.support import world
from tests.support.world import AGENT

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_backoff(settings: Any) -> None:
    settings.STATECORE_RETRY_BASE_SECONDS = 0


def submit(**task: Any) -> None:
    gates = [{"id": "g", "gate_type": "UNIT", "command": "pytest"}]
    parts = [{"id": "w", "tasks": [{"id": "t", **task}], "gates": gates if task.get("gates") else []}]
    submit_plan({"id": "r", "phase": world.phase().pk, "start": True, "workstreams": parts}, actor=world.operator())
    register(Worker, actor=AGENT, id="w1")


def claim() -> dict[str, Any]:
    timers.queue_retries()
    (task,) = claim_once("w1", ClaimFields(), AGENT)["tasks"]
    return dict(task)


def report(trigger: str, **params: Any) -> None:
    task = Task.objects.order_by("created_at").last()
    world.fire(task, trigger, actor=AGENT, attempt=task.attempt, **params)


def test_a_failed_attempt_is_kept_and_the_next_claim_reports_it() -> None:
    submit()
    assert claim()["previous"] is None
    report("execution_failed", error="it broke", exit_code=7, output="line 1\nline 2")

    previous = claim()["previous"]

    assert previous == {"attempt": 1, "exit_code": 7, "error": "it broke", "output": "line 1\nline 2"}
    report("execution_completed", exit_code=0, output="fine")
    first, second = list_attempts(Task.objects.get())
    assert (first["worker"], first["ended_by"], first["error"]) == ("w1", "execution_failed", "it broke")
    assert first["started_at"] <= first["ended_at"] <= second["started_at"]
    assert (second["attempt"], second["worker"], second["exit_code"], second["output"]) == (2, "w1", 0, "fine")
    assert (second["ended_by"], TaskAttempt.objects.count()) == ("completed", 1)


def test_an_attempt_that_runs_is_listed_without_an_end() -> None:
    submit()
    claim()
    (only,) = list_attempts(Task.objects.get())
    assert (only["attempt"], only["worker"], only["ended_at"]) == (1, "w1", None)


def test_attempts_that_time_out_are_cancelled_or_forced_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    submit(timeout_sec=5)
    claim()
    monkeypatch.setattr(clock, "_offset", timedelta(seconds=6))
    timers.time_out_tasks()
    claim()
    world.forced(Task.objects.get(), "queued")
    claim()
    transitions.transition(Task, "t", "user_cancelled", actor=world.operator(), reason="not needed any more")
    found = list_attempts(Task.objects.get())
    assert [(each["ended_by"], each["error"]) for each in found] == [
        ("timeout_exceeded", "timed out after 5 s"),
        ("manual_override", world.REASON),
        ("user_cancelled", "not needed any more"),
    ]


def test_an_attempt_that_a_gate_rejects_ended_when_it_was_reported() -> None:
    submit(gates=["g"])
    claim()
    report("execution_completed", exit_code=0, output="done")
    world.fire(TestGate.objects.get(), "gate_started")
    world.fire(TestGate.objects.get(), "gate_failed", exit_code=1)
    (only,) = list_attempts(Task.objects.get())
    assert (only["ended_by"], only["exit_code"], only["output"]) == ("gate_failed", 0, "done")


def test_the_tries_of_a_retried_task_are_one_list() -> None:
    submit(max_retries=0)
    claim()
    report("execution_failed", error="it broke")
    successor = transitions.retry(Task, "t", actor=world.operator()).entity
    assert successor is not None
    assert claim()["previous"]["error"] == "it broke"
    report("execution_completed", exit_code=0)
    assert [each["task"] for each in list_attempts(Task.objects.get(pk=successor.pk))] == ["t", successor.pk]


def test_completing_a_task_writes_no_record() -> None:
    submit()
    claim()
    with CaptureQueriesContext(connection) as asked:
        report("execution_completed", exit_code=0)
    assert not [query for query in asked if "taskattempt" in query["sql"]]


def test_old_attempts_are_deleted(settings: Any) -> None:
    submit()
    claim()
    report("execution_failed", error="it broke")
    assert task_attempt.forget() == 0
    TaskAttempt.objects.update(ended_at=clock.now() - timedelta(days=91))
    settings.STATECORE_ATTEMPT_DAYS = 0
    assert task_attempt.forget() == 0
    settings.STATECORE_ATTEMPT_DAYS = 90
    assert (task_attempt.forget(), TaskAttempt.objects.count()) == (1, 0)


def test_attempts_are_listed_over_rest_and_in_the_console(client: Client, admin_user: Any) -> None:
    submit()
    claim()
    report("execution_failed", error="it <broke>", output="the last words")
    found = expect_ok(Caller("read").get("tasks/t/attempts/"))
    assert [each["error"] for each in found["results"]] == ["it <broke>"]
    assert Caller("read").get("tasks/unknown/attempts/").status_code == 404
    client.force_login(admin_user)
    page = client.get(reverse("console:entity", args=["tasks", "t"]), {"tab": "attempts"}).content.decode()
    assert "it &lt;broke&gt;" in page
    assert "the last words" in page
