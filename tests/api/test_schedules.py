"""Templates and schedules over REST: create, read, change, pause, run, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from statecore.records import Phase
from statecore.scheduling import occurrences
from tests.api.callers import Caller, expect_ok, expect_refusal

pytestmark = [pytest.mark.django_db, pytest.mark.once_on("postgres")]

PLAN = {"phase": "PH", "workstreams": [{"id": "w", "tasks": [{"id": "t", "payload": {"name": "${name}"}}]}]}
TEMPLATE = {"id": "nightly", "plan": PLAN, "parameters": {"name": {"type": "string"}}}
SCHEDULE = {
    "id": "s", "template": "nightly", "cron": "0 2 * * *", "timezone": "Europe/Berlin", "parameters": {"name": "x"},
}  # fmt: skip


@pytest.fixture
def caller() -> Caller:
    Phase.objects.create(id="PH")
    made = Caller("operate")
    expect_ok(made.post("templates/", TEMPLATE), 201)
    return made


def test_a_template_has_versions(caller: Caller) -> None:
    expect_refusal(caller.post("templates/", TEMPLATE), 409, "duplicate_id")
    body = {**TEMPLATE, "description": "second"}
    body.pop("id")
    assert expect_ok(caller.post("templates/nightly/versions/", body), 201)["version"] == 2
    assert expect_ok(caller.get("templates/nightly/"))["description"] == "second"
    assert expect_ok(caller.get("templates/nightly/?version=1"))["description"] == ""
    assert [each["version"] for each in expect_ok(caller.get("templates/"))["results"]] == [2]
    assert [each["version"] for each in expect_ok(caller.get("templates/nightly/versions/"))["results"]] == [2, 1]
    expect_refusal(caller.get("templates/gone/"), 404, "not_found")
    expect_refusal(caller.post("templates/gone/versions/", body), 404, "not_found")


def test_a_schedule_is_created_changed_paused_and_run(caller: Caller) -> None:
    made = expect_ok(caller.post("schedules/", SCHEDULE), 201)
    assert (len(made["next"]), made["paused"], made["last"]) == (5, False, None)
    assert expect_ok(caller.patch("schedules/s/", {"cron": "30 * * * *", "not_after": None}))["cron"] == "30 * * * *"
    assert expect_ok(caller.post("schedules/s/pause/", {"reason": "wait"}))["next"] == []
    expect_refusal(caller.post("schedules/s/pause/", {"reason": "wait"}), 409, "terminal_state")
    assert expect_ok(caller.post("schedules/s/resume/", {"reason": "go"}))["paused"] is False
    assert expect_ok(caller.post("schedules/s/run/", {}), 202)["outcome"] == "due"
    assert occurrences.run_due() == 1
    (done,) = expect_ok(caller.get("schedules/s/occurrences/?outcome=submitted"))["results"]
    assert expect_ok(caller.get(f"runs/{done['run']}/"))["state"] == "running"
    assert [each["id"] for each in expect_ok(caller.get("schedules/?template=nightly"))["results"]] == ["s"]


def test_a_key_creates_one_schedule(caller: Caller) -> None:
    body = {**SCHEDULE, "request_id": "once"}
    first, second = (expect_ok(caller.post("schedules/", body), 201) for _ in range(2))
    assert first["id"] == second["id"]


@pytest.mark.parametrize(
    ("change", "name"),
    [({"cron": "nonsense"}, "cron"), ({"parameters": {}}, "parameters.name"), ({"timezone": "Nowhere"}, "timezone"),
     ({"overlap": "perhaps"}, "overlap"), ({"not_after": "2030-01-01T00:00:00"}, "not_after")],
)  # fmt: skip
def test_a_wrong_schedule_is_refused_by_field(caller: Caller, change: dict[str, Any], name: str) -> None:
    refusal = expect_refusal(caller.post("schedules/", {**SCHEDULE, **change}), 400, "invalid")
    assert list(refusal["errors"]) == [name]


def test_a_plan_takes_weight_limit_and_time(caller: Caller) -> None:
    plan = {**PLAN, "id": "r", "max_parallel": 3, "weight": 2, "not_before": "2099-01-01T00:00:00Z", "start": True}
    entity = expect_ok(caller.post("runs/submit/", plan), 201)
    assert (entity["state"], entity["max_parallel"], entity["weight"]) == ("pending", 3, 2)
    refusal = expect_refusal(caller.post("runs/submit/", {**plan, "id": "q", "weight": 0}), 400, "invalid")
    assert list(refusal["errors"]) == ["weight"]
    agent = Caller("agent")
    refusal = expect_refusal(agent.post("runs/submit/", {**plan, "id": "q"}), 400, "invalid")
    assert list(refusal["errors"]) == ["weight"]
