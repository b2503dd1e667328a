"""Pipeline jobs over REST: their checkpoints are listed, and agents resume them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from statecore.machines.pipeline_job import PipelineJob
from statecore.read_models import stuck
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.machines.worlds import fixed_clock
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with fixed_clock() as traveller:
        yield traveller


@pytest.fixture
def agent() -> Caller:
    return Caller("agent")


def started(agent: Caller) -> str:
    expect_ok(agent.post("pipeline-jobs/", {"id": "p"}), 201)
    fire(agent, "analyze")
    expect_ok(agent.put("pipeline-jobs/p/checkpoints/files/", {"next": 7}))
    return "p"


def fire(agent: Caller, trigger: str, job: str = "p", **fields: Any) -> Any:
    return expect_ok(agent.post(f"pipeline-jobs/{job}/transitions/", {"trigger": trigger, **fields}))


def resume(agent: Caller, job: str = "p") -> Any:
    return agent.post(f"pipeline-jobs/{job}/resume/")


def test_checkpoints_are_listed_with_their_times(agent: Caller, clock: Any) -> None:
    started(agent)
    clock.shift(timedelta(minutes=2))
    expect_ok(agent.put("pipeline-jobs/p/checkpoints/rows/", {"row": 1}))
    listed = expect_ok(agent.get("pipeline-jobs/p/checkpoints/"))
    assert [(each["job"], each["phase"]) for each in listed["results"]] == [("p", "files"), ("p", "rows")]
    first, second = (each["updated_at"] for each in listed["results"])
    assert first < second
    expect_refusal(agent.get("pipeline-jobs/nope/checkpoints/"), 404, "not_found")


def test_another_agent_resumes_a_crashed_job_in_place(agent: Caller, clock: Any) -> None:
    started(agent)
    other = Caller("agent")
    expect_refusal(resume(other), 403, "not_the_holder")
    clock.shift(timedelta(hours=1))
    assert stuck.recover_stalled() == 1
    reply = expect_ok(resume(other))
    assert (reply["entity"]["id"], reply["entity"]["state"]) == ("p", "ANALYZING")
    assert reply["entity"]["holder"] == f"token:{other.token.prefix}"
    assert [each["phase"] for each in reply["checkpoints"]] == ["files"]
    expect_refusal(resume(Caller("agent")), 403, "not_the_holder")
    expect_refusal(agent.post("pipeline-jobs/p/transitions/", {"trigger": "map"}), 403, "not_the_holder")
    fire(other, "map")
    assert world.last_event(PipelineJob.objects.get())["to_state"] == "MAPPING"


def test_an_agent_resumes_its_own_job_after_a_restart(agent: Caller) -> None:
    started(agent)
    assert expect_ok(resume(agent))["entity"]["state"] == "ANALYZING"


def test_the_holder_resumes_a_failed_job_as_a_successor(agent: Caller) -> None:
    started(agent)
    fire(agent, "fail", error="disk full")
    expect_refusal(resume(Caller("agent")), 403, "not_the_holder")
    reply = expect_ok(resume(agent))
    successor = reply["entity"]
    assert (successor["state"], successor["retry_of"]) == ("PENDING", "p")
    assert [(each["job"], each["phase"]) for each in reply["checkpoints"]] == [("p", "files")]
    fire(agent, "analyze", job=successor["id"])
    expect_refusal(resume(agent), 409, "already_retried")


def test_an_agent_resumes_a_failing_job_a_limited_number_of_times(agent: Caller, settings: Any) -> None:
    settings.STATECORE_AGENT_RETRIES = 1
    started(agent)
    fire(agent, "fail", error="disk full")
    successor = expect_ok(resume(agent))["entity"]["id"]
    fire(agent, "analyze", job=successor)
    fire(agent, "fail", job=successor, error="disk full")
    refusal = expect_refusal(resume(agent, successor), 409, "guard_failed")
    assert refusal["unmet"][0]["code"] == "retries_exhausted"


def test_only_a_job_that_has_work_left_is_resumed(agent: Caller) -> None:
    expect_ok(agent.post("pipeline-jobs/", {"id": "p"}), 201)
    expect_refusal(resume(agent), 409, "invalid_transition")
    expect_refusal(resume(agent, "nope"), 404, "not_found")
