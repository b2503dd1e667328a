"""A repeated POST is one change and one answer, on every call that accepts a key."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from statecore.bulk import jobs
from statecore.bulk.actions import Fire
from statecore.journal import Event, IdempotencyRecord
from statecore.machines.task import Task
from statecore.records import BulkJob, Phase
from tests.api.callers import Caller, expect_ok, expect_refusal, member
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> Caller:
    return Caller("override")


def job() -> str:
    return str(world.created("PipelineJob").pk)


def plan() -> dict:
    Phase.objects.get_or_create(id="PH-1")
    return {"phase": "PH-1", "workstreams": [{"id": "w", "tasks": [{"id": "a"}]}]}


OVERRIDE = {"to_state": "FAILED", "reason": "long enough a reason", "category": "other"}
CALLS = {
    "create": lambda: ("pipeline-jobs/", {"profile": "x"}),
    "register": lambda: ("workers/", {"capabilities": []}),
    "transition": lambda: (f"pipeline-jobs/{job()}/transitions/", {"trigger": "analyze"}),
    "override": lambda: (f"pipeline-jobs/{job()}/override/", OVERRIDE),
    "retry": lambda: (f"tasks/{world.forced(world.task(), 'failed').pk}/retry/", {}),
    "bulk": lambda: ("pipeline-jobs/bulk-transitions/", {"ids": [job()], "trigger": "analyze"}),
    "submit": lambda: ("runs/submit/", plan()),
    "phase": lambda: ("phases/", {"title": "x"}),
    "heartbeat": lambda: (f"workers/{world.idle_worker().pk}/heartbeat/", {}),
    "claim": lambda: (world.queued_task() and f"workers/{world.idle_worker().pk}/claim/", {}),
    "acquire": lambda: ("breakers/git/acquire/", {}),
    "report": lambda: ("breakers/git/report/", {"success": False}),
    "event": lambda: (f"agent-jobs/{world.created('AgentJob').pk}/events/", {"type": "note"}),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("by", ["header", "body"])
def test_a_repeat_gets_the_answer_of_the_first(call: str, by: str, operator: Caller) -> None:
    path, body = CALLS[call]()
    headers = {"Idempotency-Key": "k1"} if by == "header" else {}
    body = {**body, "request_id": "k1"} if by == "body" else body
    first = operator.post(path, body, **headers)
    assert first.status_code in (200, 201)
    assert "Idempotent-Replayed" not in first
    events = Event.objects.count()
    again = operator.post(path, body, **headers)
    assert again["Idempotent-Replayed"] == "true"
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert Event.objects.count() == events
    other = {**body, "metadata": {"b": 1}} if call in ("create", "transition") else None
    if other:
        expect_refusal(operator.post(path, other, **headers), 422, "idempotency_mismatch")


def test_the_same_key_elsewhere_is_refused(operator: Caller) -> None:
    expect_ok(operator.post("pipeline-jobs/", {}, **{"Idempotency-Key": "k"}), 201)
    reply = expect_refusal(operator.post("phases/", {}, **{"Idempotency-Key": "k"}), 422, "idempotency_mismatch")
    assert reply["endpoint"] == "POST /api/v1/pipeline-jobs/"


def test_two_callers_may_use_the_same_key(operator: Caller) -> None:
    body = {"request_id": "k"}
    first, second = (
        expect_ok(operator.post("pipeline-jobs/", body), 201),
        expect_ok(Caller().post("pipeline-jobs/", body), 201),
    )
    assert first["id"] != second["id"]


def test_a_refused_request_may_be_tried_again_with_its_key(operator: Caller) -> None:
    key = {"Idempotency-Key": "k"}
    expect_refusal(operator.post("pipeline-jobs/nope/transitions/", {"trigger": "analyze"}, **key), 404, "not_found")
    world.created("PipelineJob", id="nope")
    expect_ok(operator.post("pipeline-jobs/nope/transitions/", {"trigger": "analyze"}, **key))


def test_a_report_that_the_database_refuses_is_refused_alone_also_under_a_key() -> None:
    """A constraint that no guard checks: a task ends after it started."""
    agent, worker = Caller(), world.idle_worker(max_concurrent_tasks=3)
    for _ in range(2):
        world.queued_task()
    held = expect_ok(agent.post(f"workers/{worker.pk}/claim/", {"max": 2}))["tasks"]
    late, sound = (Task.objects.get(pk=task["id"]) for task in held)
    world.touched(late, started_at=late.started_at + timedelta(days=400), lease_expires_at=None)
    report = {"trigger": "execution_failed", "attempt": 1, "error": "x", "retry": False}
    body = {"reports": [{"task": task.pk, **report} for task in (late, sound)]}
    key = {"Idempotency-Key": "k"}
    reply, again = (expect_ok(agent.post(f"workers/{worker.pk}/claim/", body, **key)) for _ in range(2))
    assert [each["refusal"] and each["refusal"]["code"] for each in reply["reports"]] == ["constraint_violated", None]
    assert again == reply


def test_an_empty_claim_is_not_stored() -> None:
    agent, worker = Caller(), world.idle_worker()
    key = {"Idempotency-Key": "k"}
    assert expect_ok(agent.post(f"workers/{worker.pk}/claim/", {}, **key))["tasks"] == []
    assert not IdempotencyRecord.objects.exists()
    world.queued_task()
    assert expect_ok(agent.post(f"workers/{worker.pk}/claim/", {}, **key))["tasks"]


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_key_that_cannot_be_kept_is_refused(key: str, operator: Caller) -> None:
    expect_refusal(operator.post("pipeline-jobs/", {}, **{"Idempotency-Key": key}), 400, "invalid")
    expect_refusal(operator.post("pipeline-jobs/", {"request_id": key}), 400, "invalid")


@pytest.mark.parametrize("key", [7, [], {}, "a\0b"])
def test_a_request_id_is_text_also_beside_the_header(key: object, operator: Caller) -> None:
    expect_refusal(operator.post("pipeline-jobs/", {"request_id": key}), 400, "invalid")
    expect_refusal(operator.post("pipeline-jobs/", {"request_id": key}, **{"Idempotency-Key": "k"}), 400, "invalid")


def test_a_bulk_transition_changes_or_refuses_each_entity(operator: Caller) -> None:
    done_job = world.fire(world.created("PipelineJob"), "finish").pk
    body = {"ids": [job(), done_job, "nope", done_job], "trigger": "analyze", "reason": "all of them"}
    before = Event.objects.count()
    preview = expect_ok(operator.post("pipeline-jobs/bulk-transitions/", {**body, "dry_run": True}))
    assert Event.objects.count() == before
    reply = expect_ok(operator.post("pipeline-jobs/bulk-transitions/", body))
    for each in (preview, reply):
        assert (each["total"], each["refused"]) == (3, 2)
        moved, ended, missing = each["results"]
        assert moved["changed"]
        assert moved["event"]["to_state"] == "ANALYZING"
        assert ended["refusal"]["code"] == "terminal_state"
        assert missing["refusal"]["status"] == 404
        assert all(result.keys() == {"id", "changed", "event", "refusal"} for result in each["results"])


def test_many_are_chosen_by_a_filter(operator: Caller) -> None:
    job(), job(), world.fire(world.created("PipelineJob"), "analyze")
    body = {"filter": {"state": ["PENDING"]}, "trigger": "map", "detail": "x"}
    reply = expect_ok(operator.post("pipeline-jobs/bulk-transitions/", body))
    assert (reply["total"], reply["refused"]) == (2, 0)


@pytest.mark.parametrize(("version", "found"), [(1, 1), ("1", 1), ([1, "2"], 2), ("3", 0)])
def test_a_number_of_a_filter_may_be_written_as_in_a_query_string(
    version: object, found: int, operator: Caller
) -> None:
    world.created("PipelineJob"), world.fire(world.created("PipelineJob"), "analyze")
    body = {"filter": {"version": version}, "trigger": "map", "detail": "x", "dry_run": True}
    assert expect_ok(operator.post("pipeline-jobs/bulk-transitions/", body))["total"] == found


@pytest.mark.parametrize(
    "body",
    [
        {}, {"trigger": "map"}, {"ids": [], "filter": {"state": "PENDING"}, "trigger": "map"},
        {"ids": "x", "trigger": "map"},
        {"ids": [1], "trigger": "map"}, {"ids": ["a b"], "trigger": "map"}, {"filter": {}, "trigger": "map"},
        {"filter": {"nonsense": 1}, "trigger": "map"}, {"filter": {"state": {}}, "trigger": "map"},
        {"filter": {"state": []}, "trigger": "map"}, {"ids": ["a"], "trigger": "map", "expected_version": 1},
        {"filter": {"id": [False]}, "trigger": "map"}, {"filter": {"id": 1}, "trigger": "map"},
        {"filter": {"attempt": [True]}, "trigger": "map"}, {"filter": {"attempt": "one"}, "trigger": "map"},
        {"filter": {"attempt": "1\n"}, "trigger": "map"}, {"filter": {"attempt": 1.5}, "trigger": "map"},
    ],
)  # fmt: skip
def test_a_bulk_call_that_makes_no_sense_is_refused(body: dict, operator: Caller) -> None:
    expect_refusal(operator.post("pipeline-jobs/bulk-transitions/", body), 400, "invalid")


@pytest.mark.parametrize("ids", [[], ["nope"]])
def test_an_unknown_trigger_is_refused_for_the_whole_bulk_call(ids: list[str], operator: Caller) -> None:
    body = {"ids": ids, "trigger": "nonsense"}
    reply = expect_refusal(operator.post("pipeline-jobs/bulk-transitions/", body), 400, "unknown_trigger")
    assert "analyze" in reply["triggers"]


@pytest.mark.parametrize("chosen", [{"ids": []}, {"ids": ["nope"]}, {"filter": {"id": "nope"}}])
@pytest.mark.parametrize("field", [{"strange": 1}, {"detail": 5}])
def test_fields_that_the_trigger_does_not_take_are_wrong_for_all_of_them(
    chosen: dict, field: dict, operator: Caller
) -> None:
    body = {**chosen, "trigger": "analyze", **field}
    reply = expect_refusal(operator.post("pipeline-jobs/bulk-transitions/", body), 400, "invalid")
    assert reply["errors"].keys() == field.keys()


def test_more_than_can_be_done_at_once_become_a_job(operator: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fire, "at_once", 2)
    monkeypatch.setattr(Fire, "portion", 2)
    wanted = [job() for _ in range(3)] + ["nope"]
    response = operator.post("pipeline-jobs/bulk-transitions/", {"ids": wanted, "trigger": "analyze"})
    reply = expect_ok(response, 202)
    assert response["Location"] == reply["url"] == f"/api/v1/bulk-jobs/{reply['job']['id']}/"
    path = reply["url"].removeprefix("/api/v1/")
    assert expect_ok(operator.get(path))["finished"] is False
    jobs.run(reply["job"]["id"], portions=1)  # killed after the first batch; the sweep resumes it
    assert expect_ok(operator.get(path))["done"] == 2
    jobs.run_due()
    finished = expect_ok(operator.get(path))
    assert (finished["finished"], finished["done"], finished["refused"]) == (True, 4, 1)
    first = expect_ok(operator.get(f"{path}results/"))
    second = expect_ok(operator.get(f"{path}results/?after=1"))
    assert first["next"].endswith("?after=1")
    assert [each["id"] for each in first["results"] + second["results"]] == wanted
    assert second["results"][1]["refusal"]["code"] == "not_found"
    expect_refusal(operator.get("bulk-jobs/nope/"), 404, "not_found")


def test_a_job_moves_nothing_more_once_its_token_is_revoked(operator: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    from statecore.records import token as tokens

    monkeypatch.setattr(Fire, "at_once", 1)
    reply = expect_ok(
        operator.post("pipeline-jobs/bulk-transitions/", {"ids": [job(), job()], "trigger": "analyze"}), 202
    )
    tokens.revoke(operator.token)
    jobs.run_due()
    finished = BulkJob.objects.get(pk=reply["job"]["id"])
    assert (finished.done, finished.refused) == (2, 2)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"trigger": "x" * 500}, "unknown_trigger"),
        ({"trigger": "analyze", "reason": "a\0b"}, "invalid"),
        ({"trigger": "analyze", "reason": "x" * 5_000}, "invalid"),
        ({"trigger": "analyze", "field": "a\0b"}, "invalid"),
        ({"trigger": "analyze", "metadata": {"lost": True}}, "invalid"),
    ],
)
def test_a_large_bulk_call_that_makes_no_sense_is_refused_before_it_is_a_job(
    body: dict, code: str, operator: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    from statecore.records import BulkJob

    monkeypatch.setattr(Fire, "at_once", 1)
    expect_refusal(operator.post("pipeline-jobs/bulk-transitions/", {"ids": ["a", "b"], **body}), 400, code)
    assert not BulkJob.objects.exists()


def test_a_large_bulk_call_without_permission_creates_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    from statecore.records import BulkJob

    monkeypatch.setattr(Fire, "at_once", 1)
    nobody = Caller("operate", user=member("nobody", "operator"))
    nobody.user.groups.clear()
    body = {"ids": ["a", "b"], "trigger": "job_cancelled"}
    expect_refusal(nobody.post("pipeline-jobs/bulk-transitions/", body), 403, "permission_denied")
    assert not BulkJob.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_retried_request_is_executed_with_its_original_body(operator: Caller) -> None:
    """The database refuses the first attempt, as after a deadlock."""
    tried: list[str] = []

    def refuse_once(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "INSERT INTO" in sql and "statecore_phase" in sql:
            tried.append(sql)
            if len(tried) == 1:
                raise OperationalError("database is locked")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse_once):
        reply = expect_ok(operator.post("phases/", {"id": "PH-7"}, **{"Idempotency-Key": "k"}), 201)

    assert (reply["id"], len(tried)) == ("PH-7", 2)


def test_every_action_is_applied_to_many_over_rest(operator: Caller) -> None:
    task, gate = world.queued_task(), world.gate()
    cancel = {"ids": [task.pk, "nope"], "action": "cancel", "reason": "called off"}
    preview = expect_ok(operator.post("tasks/bulk/", {**cancel, "dry_run": True}))
    done = expect_ok(operator.post("tasks/bulk/", cancel))
    for answer in (preview, done):
        assert (answer["total"], answer["refused"], answer["results"][0]["changed"]) == (2, 1, True)
    retried = expect_ok(operator.post("tasks/bulk/", {"ids": [task.pk], "action": "retry"}))
    assert retried["results"][0]["event"]["trigger"] == "retried"
    waiver = {"reason": "known to be flaky", "category": "other", "expires_at": "2100-01-01T00:00:00Z"}
    waived = expect_ok(operator.post("gates/bulk/", {"filter": {"id": [gate.pk]}, "action": "waive", **waiver}))
    assert waived["results"][0]["event"]["trigger"] == "waived"
    forced = {
        "ids": [gate.pk],
        "action": "override",
        "to_state": "FAILED",
        "reason": "seen to fail",
        "category": "other",
    }
    assert expect_ok(operator.post("gates/bulk/", forced))["results"][0]["event"]["kind"] == "override"


@pytest.mark.parametrize(
    "body",
    [
        {"action": "nonsense"}, {"action": "waive", "reason": "long enough a reason", "category": "other"},
        {"action": "retry", "to_state": "failed"}, {"action": "cancel", "trigger": "cancel"},
        {"action": "override", "to_state": "FAILED"}, {"action": "retry", "strange": 1}, {},
    ],
)  # fmt: skip
def test_a_bulk_action_that_makes_no_sense_is_refused(body: dict, operator: Caller) -> None:
    expect_refusal(operator.post("pipeline-jobs/bulk/", {"ids": [job()], **body}), 400, "invalid")


def test_a_bulk_override_takes_the_scope_override() -> None:
    body = {"ids": [job()], "action": "override", **OVERRIDE}
    expect_refusal(Caller("operate").post("pipeline-jobs/bulk/", body), 403, "permission_denied")
    expect_refusal(Caller("agent").post("pipeline-jobs/bulk/", {**body, "action": "retry"}), 400, "invalid")
    retry = {"ids": [job()], "action": "retry"}
    expect_refusal(Caller("agent").post("pipeline-jobs/bulk/", retry), 403, "permission_denied")


def test_a_large_preview_tries_the_first_and_a_stopped_job_ends(
    operator: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fire, "at_once", 2)
    ids = [job() for _ in range(3)]
    body = {"ids": [*ids, "nope"], "action": "cancel", "reason": "called off"}
    preview = expect_ok(operator.post("pipeline-jobs/bulk/", {**body, "dry_run": True}))
    assert (preview["total"], preview["applicable"], len(preview["results"])) == (4, 3, 2)
    started = expect_ok(operator.post("pipeline-jobs/bulk/", body), 202)["job"]
    assert (started["action"], started["finished"]) == ("cancel", False)
    stopped = expect_ok(operator.post(f"bulk-jobs/{started['id']}/stop/"))
    jobs.run_due()
    assert (stopped["finished"], stopped["done"], bool(stopped["stopped_by"])) == (True, 0, True)
