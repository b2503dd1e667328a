"""The calls that every machine has, tested on every machine."""

from typing import Any

import pytest

from statecore.journal import Event
from statecore.kernel import registry
from statecore.records import AuditNote
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.machines import worlds
from tests.support import world

pytestmark = pytest.mark.django_db

PLAIN = ("ingestion-jobs", "agent-jobs", "supervised-workers", "supervised-jobs", "pipeline-jobs")
COLLECTIONS = sorted(flow.collection for flow in worlds.flows())
NEEDED = {"supervised-workers": {"workspace_id": "ws"}, "uet-workers": {"worker_type": "builder"}}
ALWAYS = {"id", "state", "version", "created_at", "updated_at", "state_entered_at", "retry_of", "metadata"}


@pytest.fixture
def agent() -> Caller:
    return Caller("agent")


@pytest.fixture
def operator() -> Caller:
    return Caller("override")


def made(collection: str) -> object:
    """Creates an entity of a collection without the API."""
    return worlds.create_entity(next(flow for flow in registry.flows() if flow.collection == collection))


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_an_entity_is_read_listed_explained_and_has_a_history(collection: str, agent: Caller) -> None:
    entity = made(collection)
    answer = read(agent, f"{collection}/{entity.pk}/")
    assert {
        "id",
        "state",
        "version",
        "created_at",
        "updated_at",
        "state_entered_at",
        "retry_of",
        "metadata",
    } <= answer.keys()
    assert answer["state"] == entity.flow.initial
    assert expect_ok(agent.get(f"{collection}/"))["results"] == [answer]
    (first,) = expect_ok(agent.get(f"{collection}/{entity.pk}/transitions/"))["results"]
    assert first["kind"] == "created"
    assert first["sequence"] == first["version"] == 1
    assert {"prev_hash", "hash"} <= first.keys()
    explained = expect_ok(agent.get(f"{collection}/{entity.pk}/explain/"))
    assert {"transitions", "waiting_on"} <= explained.keys()
    assert all({"trigger", "to_state", "allowed", "kind", "unmet"} <= each.keys() for each in explained["transitions"])
    assert explained["moves"] == explained["transitions"]  # deprecated


@pytest.mark.parametrize("collection", PLAIN)
def test_an_entity_is_created_in_its_initial_state(collection: str, agent: Caller) -> None:
    answer = expect_ok(
        agent.post(f"{collection}/", {"id": "mine", "metadata": {"a": [1]}, **NEEDED.get(collection, {})}), 201
    )
    flow = next(flow for flow in registry.flows() if flow.collection == collection)
    assert (answer["id"], answer["state"], answer["version"]) == ("mine", flow.initial, 1)
    assert answer["metadata"] == {"a": [1]}
    assert answer["event"]["kind"] == "created"
    assert answer["event"]["actor"] == agent.token.name
    assert (
        expect_refusal(agent.post(f"{collection}/", {"id": "mine", **NEEDED.get(collection, {})}), 409, "duplicate_id")[
            "id"
        ]
        == "mine"
    )


def test_a_task_lists_its_dependencies(agent: Caller) -> None:
    workstream = world.workstream(run=world.run_by(agent.token.as_agent()))
    first, gate = world.task(workstream=workstream), world.gate()
    body = {"workstream": first.workstream_id, "depends_on": [first.pk], "gates": [gate.pk]}
    answer = expect_ok(agent.post("tasks/", body), 201)
    assert answer["depends_on"] == [first.pk]
    assert answer["gates"] == [gate.pk]
    assert answer["entry_gates"] == []
    assert expect_ok(agent.get(f"tasks/{answer['id']}/"))["depends_on"] == [first.pk]


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"state": "completed"}, "state_is_protected", None),
        ({"workstream": "nope"}, "invalid", "workstream"),
        ({}, "invalid", "workstream"),
        ({"nonsense": 1}, "invalid", "nonsense"),
        ({"actor": "root"}, "invalid", "actor"),
        ({"dry_run": True}, "invalid", "dry_run"),
        ({"not an identifier": 1}, "invalid", "not an identifier"),
        ({"id": "a/b"}, "invalid", None),
        ({"id": 7}, "invalid", None),
        ({"reason": 7}, "invalid", "reason"),
        ({"depends_on": "x"}, "invalid", None),
    ],
)
def test_what_cannot_be_created_is_refused_by_field(body: dict, code: str, field: str | None, agent: Caller) -> None:
    given = body if "workstream" in body or not body else {"workstream": world.workstream().pk, **body}
    answer = expect_refusal(agent.post("tasks/", given), 400, code)
    if field:
        assert field in answer["errors"]


def test_a_transition_returns_its_event_its_consequences_and_the_entity(agent: Caller) -> None:
    job = world.created("PipelineJob")
    answer = expect_ok(agent.post(f"pipeline-jobs/{job.pk}/transitions/", {"trigger": "analyze", "detail": "looking"}))
    assert answer["changed"] is True
    assert answer["caused"] == []
    event = answer["event"]
    assert event["event_id"].startswith("evt_")
    assert (event["entity_type"], event["entity_id"]) == ("pipeline_job", job.pk)
    assert (event["from_state"], event["to_state"]) == ("PENDING", "ANALYZING")
    assert (event["trigger"], event["kind"], event["version"]) == ("analyze", "normal", 2)
    assert event["operator"] is None
    assert event["channel"] == "rest"
    assert answer["entity"]["detail"] == "looking"


def read(caller: Caller, place: str) -> dict[str, Any]:
    """Reads an entity, without the fields that only a read of one entity has."""
    found = expect_ok(caller.get(place))
    return {name: value for name, value in found.items() if name != "result" or not place.startswith("tasks/")}


def test_a_transition_returns_the_entity_as_a_read_does() -> None:
    operator, running = Caller("override"), world.running_task()
    place = f"tasks/{world.task(workstream=running.workstream, depends_on=[running.pk]).pk}/"
    forced = {"to_state": "queued", "reason": "long enough a reason", "category": "other", "request_id": "once"}
    answer = expect_ok(operator.post(f"{place}override/", forced))["entity"]
    assert answer["depends_on"] == [running.pk]
    assert answer == read(operator, place) == expect_ok(operator.post(f"{place}override/", forced))["entity"]
    cancelled = expect_ok(operator.post(f"tasks/{running.pk}/transitions/", {"trigger": "user_cancelled"}))["entity"]
    assert cancelled == read(operator, f"tasks/{running.pk}/")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid"),
        ({"trigger": 7}, 400, "invalid"),
        ({"trigger": "fly"}, 400, "unknown_trigger"),
        ({"trigger": "analyze", "nonsense": 1}, 400, "invalid"),
        ({"trigger": "analyze", "detail": 1}, 400, "invalid"),
        ({"trigger": "analyze", "expected_version": 9}, 409, "stale_version"),
        ({"trigger": "analyze", "expected_version": "1"}, 400, "invalid"),
        ({"trigger": "analyze", "metadata": []}, 400, "invalid"),
        ({"trigger": "analyze", "reason": "x" * 2001}, 400, "invalid"),
        ({"trigger": "analyze", "detail": "a\0b"}, 400, "invalid"),
    ],
)
def test_an_invalid_transition_changes_nothing(body: dict, status: int, code: str, agent: Caller) -> None:
    job = world.created("PipelineJob")
    before = world.trace(job)
    expect_refusal(agent.post(f"pipeline-jobs/{job.pk}/transitions/", body), status, code)
    assert world.trace(job) == before


def test_refused_transitions_list_the_open_triggers(agent: Caller) -> None:
    job = world.fire(world.created("PipelineJob"), "finish")
    answer = expect_refusal(
        agent.post(f"pipeline-jobs/{job.pk}/transitions/", {"trigger": "analyze"}), 409, "terminal_state"
    )
    assert (answer["state"], answer["version"], answer["allowed"]) == ("DONE", 2, [])
    answer = expect_refusal(
        agent.post(f"pipeline-jobs/{job.pk}/transitions/", {"trigger": "finish"}), 409, "already_in_state"
    )
    task = world.task()
    answer = expect_refusal(
        agent.post(f"tasks/{task.pk}/transitions/", {"trigger": "execution_failed", "error": "x"}),
        409,
        "invalid_transition",
    )
    assert "scheduler_assigned" in answer["allowed"]


def test_a_guard_returns_its_unmet_condition(agent: Caller) -> None:
    task = world.queued_task(required_capabilities=["git"])
    worker = expect_ok(agent.post("workers/", {"capabilities": []}), 201)
    body = {"trigger": "worker_started", "worker": worker["id"]}
    answer = expect_refusal(agent.post(f"tasks/{task.pk}/transitions/", body), 409, "guard_failed")
    assert answer["unmet"][0]["code"] == "worker_unsuitable"


def test_a_dry_run_of_a_transition_changes_nothing(agent: Caller) -> None:
    job = world.created("PipelineJob")
    before = world.trace(job)
    assert expect_ok(agent.post(f"pipeline-jobs/{job.pk}/transitions/", {"trigger": "analyze", "dry_run": True}))[
        "changed"
    ]
    assert world.trace(job) == before


def test_an_unknown_id_is_not_found_everywhere(operator: Caller) -> None:
    for entity_id in ("nope", "%00", "a%20b", "x" * 65, "%F0%9F%92%A9"):
        for path in ("", "transitions/", "explain/"):
            expect_refusal(operator.get(f"tasks/{entity_id}/{path}"), 404, "not_found")
        expect_refusal(operator.patch(f"tasks/{entity_id}/", {"priority": 1}), 404, "not_found")
        expect_refusal(
            operator.post(f"tasks/{entity_id}/transitions/", {"trigger": "user_cancelled"}), 404, "not_found"
        )
        expect_refusal(operator.post(f"tasks/{entity_id}/retry/"), 404, "not_found")
        body = {"to_state": "failed", "reason": "long enough a reason", "category": "other"}
        expect_refusal(operator.post(f"tasks/{entity_id}/override/", body), 404, "not_found")


def test_what_only_python_takes_for_the_same_is_changed(operator: Caller) -> None:
    task = world.task()
    for value in (1, True, 1.5, 0, False):
        operator.patch(f"tasks/{task.pk}/", {"metadata": {"a": value}})
        assert repr(expect_ok(operator.get(f"tasks/{task.pk}/"))["metadata"]["a"]) == repr(value)


def test_edited_fields_are_changed_and_the_editor_is_recorded(operator: Caller) -> None:
    task = world.task()
    answer = expect_ok(operator.patch(f"tasks/{task.pk}/", {"priority": 7, "metadata": {"a": 1}}))
    assert (answer["priority"], answer["metadata"], answer["version"]) == (7, {"a": 1}, 2)
    event = world.last_event(task)
    assert (event["kind"], event["actor"]) == ("edited", operator.user.username)
    assert event["metadata"]["changed"]["priority"] == "0 → 7"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"state": "completed"}, 400, "state_is_protected"),
        ({"is_critical": True}, 400, "invalid"),
        ({"workstream": "x"}, 400, "invalid"),
        ({"version": 7}, 400, "invalid"),
        ({"attempt": 7}, 400, "invalid"),
        ({"depends_on": []}, 400, "invalid"),
        ({"nonsense": 1}, 400, "invalid"),
        ({"priority": "high"}, 400, "invalid"),
        ({"priority": 10**9}, 400, "invalid"),
        ({"max_retries": 101}, 400, "invalid"),
        ({"metadata": [1]}, 400, "invalid"),
        ({"priority": 1, "expected_version": 9}, 409, "stale_version"),
    ],
)
def test_what_cannot_be_changed_is_refused(body: dict, status: int, code: str, operator: Caller) -> None:
    task = world.task()
    before = world.trace(task)
    expect_refusal(operator.patch(f"tasks/{task.pk}/", body), status, code)
    assert world.trace(task) == before


def test_of_what_is_final_only_the_metadata_changes(operator: Caller) -> None:
    task = world.forced(world.task(), "failed")
    expect_refusal(operator.patch(f"tasks/{task.pk}/", {"priority": 1}), 409, "terminal_state")
    assert expect_ok(operator.patch(f"tasks/{task.pk}/", {"metadata": {"seen": True}}))["metadata"] == {"seen": True}


OVERRIDE = {"to_state": "failed", "reason": "the worker is gone for good", "category": "crashed_worker"}


def test_an_override_is_an_event_of_its_own_with_the_operators_name(operator: Caller) -> None:
    task = world.task()
    answer = expect_ok(operator.post(f"tasks/{task.pk}/override/", {**OVERRIDE, "expected_version": 1}))
    event = answer["event"]
    assert (event["kind"], event["severity"], event["operator"]) == ("override", "warning", operator.user.username)
    assert event["category"] == "crashed_worker"
    assert answer["entity"]["state"] == "failed"


def test_an_override_clears_the_retry_count_and_records_the_verified_output(operator: Caller) -> None:
    task, checked = world.running_task(), {"name": "report.txt", "sha256": "0" * 64, "bytes": 9}
    world.touched(task, retry_count=2)
    body = {"to_state": "completed", "reason": world.REASON, "category": "crashed_worker", "verified_output": checked}

    expect_refusal(
        operator.post(f"tasks/{task.pk}/override/", {**body, "verified_output": {**checked, "bytes": 0}}),
        400,
        "invalid",
    )
    done = expect_ok(operator.post(f"tasks/{task.pk}/override/", {**body, "clear_retry_count": True}))
    assert done["entity"]["retry_count"] == 0
    assert done["event"]["metadata"].items() >= {
        "clear_retry_count": True, "verified_output": "report.txt", "sha256": "0" * 64, "bytes": 9,
    }.items()  # fmt: skip
    breaker = world.created("CircuitBreaker", id="grep")
    refused = {"to_state": "OPEN", "reason": world.REASON, "category": "other", "clear_retry_count": True}
    expect_refusal(operator.post(f"breakers/{breaker.pk}/override/", refused), 400, "invalid")


def test_a_dry_run_of_an_override_lists_the_cascade_and_changes_nothing(operator: Caller) -> None:
    task = world.task()
    before = world.trace(task)
    answer = expect_ok(operator.post(f"tasks/{task.pk}/override/", {**OVERRIDE, "dry_run": True}))
    assert answer["changed"]
    assert world.trace(task) == before


@pytest.mark.parametrize("missing", ["to_state", "reason", "category"])
def test_an_override_needs_every_field(missing: str, operator: Caller) -> None:
    body = {name: value for name, value in OVERRIDE.items() if name != missing}
    answer = expect_refusal(operator.post(f"tasks/{world.task().pk}/override/", body), 400, "invalid")
    assert missing in answer["errors"]


def test_a_short_reason_is_refused_and_the_attempt_is_on_record(operator: Caller) -> None:
    task = world.task()
    expect_refusal(operator.post(f"tasks/{task.pk}/override/", {**OVERRIDE, "reason": "short"}), 400, "invalid")
    note = AuditNote.objects.get(kind="override_refused")
    assert (note.kind, note.entity_id, note.facts["code"]) == ("override_refused", task.pk, "invalid")


@pytest.mark.parametrize("scope", ["read", "agent", "operate"])
def test_an_override_without_permission_is_refused_and_recorded(scope: str) -> None:
    caller, task = Caller(scope), world.task()
    answer = expect_refusal(caller.post(f"tasks/{task.pk}/override/", OVERRIDE), 403, "permission_denied")
    assert answer["required"] == "statecore.override_task"
    assert AuditNote.objects.get(kind="override_refused").facts["code"] == "permission_denied"
    assert Event.objects.filter(kind="override").count() == 0


def test_a_retry_makes_a_successor(operator: Caller) -> None:
    task = world.forced(world.task(), "failed")
    answer = expect_ok(operator.post(f"tasks/{task.pk}/retry/", {"reason": "once more"}), 201)
    assert (answer["retry_of"], answer["state"]) == (task.pk, "pending")
    again = expect_refusal(operator.post(f"tasks/{task.pk}/retry/"), 409, "already_retried")
    assert again["successor"] == answer["id"]
    expect_refusal(operator.post(f"tasks/{world.task().pk}/retry/"), 409, "invalid_transition")
