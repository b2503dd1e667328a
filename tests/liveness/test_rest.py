"""Heartbeats over REST: of every machine that works, with progress, by the holder only."""

from __future__ import annotations

from typing import Any

import pytest

from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.task import Task
from statecore.scheduling import claims, heartbeats, timers
from tests.api.callers import Caller, expect_ok, expect_refusal, member
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(clock: Any) -> Caller:
    return Caller(user=member("owner", "operator"), name="agent-7")


@pytest.fixture
def other(agent: Caller) -> Caller:
    return Caller(user=member("stranger", "operator"), name="agent-8")


def start_job(agent: Caller) -> str:
    job = expect_ok(agent.post("ingestion-jobs/", {"source": "feed"}), 201)["id"]
    expect_ok(agent.post(f"ingestion-jobs/{job}/transitions/", {"trigger": "start"}))
    return f"ingestion-jobs/{job}/"


def test_a_uet_worker_sends_heartbeats(agent: Caller, clock: Any) -> None:
    worker = expect_ok(agent.post("uet-workers/", {"worker_type": "python"}), 201)["id"]
    clock.shift(60)
    reply = expect_ok(agent.post(f"uet-workers/{worker}/heartbeat/"))
    assert reply == {
        "state": "SPAWNING",
        "attempt": 0,
        "lease_expires_at": "2026-01-05T08:03:00.000000Z",
        "commands": [],
    }
    assert expect_ok(agent.get(f"uet-workers/{worker}/"))["last_heartbeat"] == "2026-01-05T08:01:00.000000Z"


def test_progress_is_stored_and_validated(agent: Caller, clock: Any) -> None:
    job = start_job(agent)
    body = {"attempt": 1, "progress": {"fraction": 0.25, "detail": "3 of 12 files"}}
    expect_ok(agent.post(f"{job}heartbeat/", body))
    at = "2026-01-05T08:00:00.000000Z"
    kept = {**body["progress"], "at": at, "since": at}
    assert expect_ok(agent.get(job))["progress"] == kept
    expect_refusal(agent.post(f"{job}heartbeat/", {"progress": {"fraction": 1.5}}), 400, "invalid")
    expect_refusal(agent.post(f"{job}heartbeat/", {"progress": {"detail": "x" * 501}}), 400, "invalid")
    assert expect_ok(agent.get(job))["progress"] == kept


def test_refusals_name_the_holder_or_the_lost_lease(agent: Caller, other: Caller) -> None:
    job = start_job(agent)
    expect_refusal(other.post(f"{job}heartbeat/"), 403, "not_the_holder")
    expect_refusal(agent.post(f"{job}heartbeat/", {"attempt": 2}), 409, "lease_lost")
    expect_ok(agent.post(f"{job}transitions/", {"trigger": "succeed", "attempt": 1}))
    expect_refusal(agent.post(f"{job}heartbeat/"), 409, "lease_lost")
    expect_refusal(agent.post("ingestion-jobs/none/heartbeat/"), 404, "not_found")


def claim(agent: Caller, **fields: Any) -> tuple[str, dict[str, Any]]:
    task = {"id": "t", **fields}
    plan = {"phase": world.phase().pk, "start": True, "workstreams": [{"id": "w", "tasks": [task]}]}
    expect_ok(agent.post("runs/submit/", plan), 201)
    worker = expect_ok(agent.post("workers/", {}), 201)["id"]
    (claimed,) = expect_ok(agent.post(f"workers/{worker}/claim/", {}))["tasks"]
    return worker, claimed


def test_a_workers_heartbeat_carries_the_progress_of_its_tasks(agent: Caller) -> None:
    worker, _task = claim(agent)
    reported = [{"id": "t", "attempt": 1, "progress": {"fraction": 0.5}}, {"id": "gone", "attempt": 1}]
    reply = expect_ok(agent.post(f"workers/{worker}/heartbeat/", {"tasks": reported}))
    assert reply["commands"] == [{"cancel": "gone", "attempt": 1}]
    assert expect_ok(agent.get("tasks/t/"))["progress"]["fraction"] == 0.5


def test_one_statement_stores_the_progress_of_all_tasks(agent: Caller, django_assert_num_queries: Any) -> None:
    worker = world.idle_worker(max_concurrent_tasks=5)
    for _ in range(2):
        world.queued_task()
    tasks = claims.claim(worker.pk, actor=THE_SYSTEM)
    late = world.running_task(by=world.idle_worker())
    progress = {(task.pk, task.attempt): {"fraction": index / 4} for index, task in enumerate([*tasks, late])}
    progress[tasks[1].pk, 2] = {"fraction": 1}
    with django_assert_num_queries(1):
        heartbeats._store_progress(worker.pk, progress)
    stored = [(Task.objects.get(pk=task.pk).progress or {}).get("fraction") for task in (*tasks, late)]
    assert stored == [0, 0.25, None]


def test_a_task_is_taken_from_a_silent_agent_after_its_own_limit(agent: Caller, clock: Any) -> None:
    worker, _task = claim(agent, heartbeat_sec=8, timeout_sec=86_000)
    clock.shift(10)
    assert timers.fail_silent_tasks() == 0
    clock.shift(1)
    assert timers.fail_silent_tasks() == 1
    task = Task.objects.get(pk="t")
    assert (task.state, task.last_error) == ("retrying", "its agent stopped sending heartbeats")
    late = {"trigger": "execution_completed", "attempt": 1, "exit_code": 0}
    expect_refusal(agent.post("tasks/t/transitions/", late), 409, "lease_lost")
    # Its agent is told to stop, even if it does not list what it works on.
    assert expect_ok(agent.post(f"workers/{worker}/heartbeat/"))["commands"] == [{"cancel": "t", "attempt": 1}]


def test_a_task_may_be_renewed_by_itself(agent: Caller, clock: Any) -> None:
    claim(agent, heartbeat_sec=8)
    for _beat in range(4):
        clock.shift(8)
        expect_ok(agent.post("tasks/t/heartbeat/", {"attempt": 1}))
        assert timers.fail_silent_tasks() == 0


def test_an_agent_may_not_ask_for_a_longer_silence_than_operators_allow(agent: Caller, settings: Any) -> None:
    settings.STATECORE_AGENT_TIMEOUT_SECONDS = 3_600
    plan = {"phase": world.phase().pk, "workstreams": [{"id": "w", "tasks": [{"id": "t", "heartbeat_sec": 3_601}]}]}
    refusal = expect_refusal(agent.post("runs/submit/", plan), 400, "invalid")
    assert "heartbeat_sec" in str(refusal["errors"])
