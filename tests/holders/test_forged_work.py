"""Attack: an agent forges the work of others by reporting on what it does not hold (issue 15, attack 2)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.support import world

pytestmark = pytest.mark.django_db


def start(agent: Caller, collection: str, fields: dict[str, Any], *triggers: dict[str, Any]) -> str:
    """Creates an entity and fires triggers; returns its path."""
    path = f"{collection}/{expect_ok(agent.post(f'{collection}/', fields), 201)['id']}/"
    for trigger in triggers:
        expect_ok(agent.post(f"{path}transitions/", trigger))
    return path


# What one agent starts, and the report with which another agent would forge its result.
WORK: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]], dict[str, Any]]] = {
    "ingestion job": ("ingestion-jobs", {}, [{"trigger": "start"}], {"trigger": "succeed", "attempt": 1}),
    "failed ingestion job": (
        "ingestion-jobs", {}, [{"trigger": "start"}, {"trigger": "fail", "attempt": 1}],
        {"trigger": "quarantine", "attempt": 1},
    ),
    "pipeline job": ("pipeline-jobs", {}, [{"trigger": "analyze"}], {"trigger": "finish"}),
    "agent job": ("agent-jobs", {}, [{"trigger": "job_leased"}], {"trigger": "job_completed", "attempt": 1}),
    "waiting agent job": (
        "agent-jobs", {}, [{"trigger": "job_leased"}, {"trigger": "job_waiting", "attempt": 1}],
        {"trigger": "job_cancelled", "attempt": 1},
    ),
    "supervised job": (
        "supervised-jobs", {"task_description": "sort"},
        [{"trigger": "validate"}, {"trigger": "allocate_resources", "workers": ["w1"]}],
        {"trigger": "success", "attempt": 1},
    ),
    "worker": ("workers", {"capabilities": []}, [], {"trigger": "shutdown_requested"}),
    "UET worker": ("uet-workers", {"worker_type": "cpu"}, [], {"trigger": "spawn_failed", "error": "forged"}),
    "supervised worker": (
        "supervised-workers", {"workspace_id": "ws"}, [{"trigger": "start_task"}],
        {"trigger": "error_unrecoverable", "error": "forged"},
    ),
    "run": ("runs", {"phase": "PH"}, [], {"trigger": "run_started"}),
}  # fmt: skip


@pytest.fixture
def phase() -> None:
    world.idle_supervised_workers("w1")
    expect_ok(Caller("operate").post("phases/", {"id": "PH"}), 201)


@pytest.mark.parametrize("kind", WORK)
@pytest.mark.parametrize("same_owner", [False, True], ids=["another owner", "the same owner"])
def test_an_agent_forges_the_result_of_another_agent(phase: None, kind: str, same_owner: bool) -> None:
    collection, fields, triggers, report = WORK[kind]
    holder = Caller("agent")
    forger = Caller("agent", user=holder.user if same_owner else None)
    path = start(holder, collection, fields, *triggers)
    before = expect_ok(holder.get(path))
    assert before["holder"] == f"token:{holder.token.prefix}"

    refusal = expect_refusal(forger.post(f"{path}transitions/", report), 403, "not_the_holder")

    assert refusal["holder"] == before["holder"]
    assert (refusal["state"], refusal["version"]) == (before["state"], before["version"])
    assert expect_ok(holder.get(path)) == before
    assert expect_ok(holder.post(f"{path}transitions/", report))["changed"]


def test_a_forged_report_with_a_stale_attempt_is_a_lost_lease() -> None:
    holder, other = Caller("agent"), Caller("agent")
    path = start(holder, "agent-jobs", {}, {"trigger": "job_leased"})
    late = {"trigger": "job_completed", "attempt": 7}
    expect_refusal(other.post(f"{path}transitions/", late), 409, "lease_lost")


def test_a_holder_repeats_its_report_and_another_agent_does_not() -> None:
    holder, other = Caller("agent"), Caller("agent")
    path = start(holder, "ingestion-jobs", {}, {"trigger": "start"}, {"trigger": "succeed", "attempt": 1})
    repeated = {"trigger": "succeed", "attempt": 1}
    assert expect_ok(holder.post(f"{path}transitions/", repeated))["changed"] is False
    expect_refusal(other.post(f"{path}transitions/", repeated), 403, "not_the_holder")


def test_a_replay_under_the_idempotency_key_survives_the_end_of_the_lease() -> None:
    holder = Caller("agent")
    path = start(holder, "agent-jobs", {}, {"trigger": "job_leased"})
    report, key = {"trigger": "job_requeued", "attempt": 1}, {"Idempotency-Key": "once"}
    first = expect_ok(holder.post(f"{path}transitions/", report, **key))
    assert first["entity"]["holder"] == ""
    replayed = holder.post(f"{path}transitions/", report, **key)
    assert (expect_ok(replayed), replayed["Idempotent-Replayed"]) == (first, "true")


def test_an_agent_writes_into_the_log_and_the_checkpoints_of_another() -> None:
    holder, other = Caller("agent"), Caller("agent")
    job = start(holder, "agent-jobs", {}, {"trigger": "job_leased"})
    expect_refusal(other.post(f"{job}events/", {"type": "tool_called"}), 403, "not_the_holder")
    expect_ok(holder.post(f"{job}events/", {"type": "tool_called"}), 201)
    pipeline = start(holder, "pipeline-jobs", {}, {"trigger": "analyze"})
    place = f"{pipeline}checkpoints/analyze/"
    expect_ok(holder.put(place, {"row": 1}))
    expect_refusal(other.put(place, {"row": 2}), 403, "not_the_holder")
    expect_refusal(other.delete(place), 403, "not_the_holder")
    assert expect_ok(other.get(place)) == {"row": 1}


def test_an_agent_works_with_the_worker_of_another() -> None:
    holder, other = Caller("agent"), Caller("agent")
    path = start(holder, "workers", {"capabilities": []})
    for call in ("heartbeat", "claim"):
        expect_refusal(other.post(f"{path}{call}/"), 403, "not_the_holder")
        expect_ok(holder.post(f"{path}{call}/"))
    expect_refusal(other.patch(path, {"capabilities": ["root"]}), 403, "not_the_holder")


def test_a_token_that_takes_over_a_name_is_not_the_holder() -> None:
    holder = Caller("agent", name="builder")
    path = start(holder, "pipeline-jobs", {}, {"trigger": "analyze"})
    holder.token.delete()
    namesake = Caller("agent", name="builder")
    expect_refusal(namesake.post(f"{path}transitions/", {"trigger": "finish"}), 403, "not_the_holder")
