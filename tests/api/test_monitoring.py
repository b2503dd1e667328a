"""The REST calls that operators and displays use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import Permission, User
from django.db import connection

from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.trends import Trends
from statecore.journal.position import head
from statecore.kernel import registry
from statecore.kernel.clock import now, rfc3339
from statecore.read_models.board.stuck_counts import cache
from statecore.records import Alert
from statecore.storage import triggers
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.liveness.cases import hold_task
from tests.support import world
from tests.support.plans import insert_copies
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def story(home) -> dict[str, Any]:
    cache.clear()
    task = world.queued_task()
    world.forced(task, "cancelled")
    worker = world.idle_worker()
    catch_up(Counters(), Trends())
    return {"task": task, "worker": worker}


DRAWINGS = ["machines/task/diagram.svg", "machines/task/diagram.mmd"]
LISTS = ["machines/", "machines/task/", "stats/", "stuck/", "alerts/", "overrides/", "events/", "audit/verify/"]


@pytest.mark.parametrize("path", [*LISTS, *DRAWINGS])
def test_nothing_without_a_token_and_all_of_it_with_one_that_reads(client, path: str) -> None:
    expect_refusal(client.get(f"/api/v1/{path}"), 401, "not_authenticated")
    assert Caller("read").get(path).status_code == 200
    if path in LISTS:
        expect_refusal(Caller("read").get(f"{path}?nonsense=1"), 400, "invalid")


def test_machines_are_described(settings) -> None:
    settings.STATECORE_DEADLINES = {"task.running": 7.0}
    caller = Caller("read")
    answer = expect_ok(caller.get("machines/"))["results"]
    assert {each["entity_type"] for each in answer} >= {"task", "run", "patch_ledger"}
    task = expect_ok(caller.get("machines/task/"))
    assert task in answer
    assert {"entity_type", "version", "initial", "states", "transitions"} <= task.keys()
    assert {state["name"]: state["deadline_seconds"] for state in task["states"]}["running"] == 7.0
    assert {each["trigger"] for each in task["transitions"]} == set(registry.flow("task").triggers)
    assert task["moves"] == task["transitions"]  # deprecated
    expect_refusal(caller.get("machines/cat/"), 404, "not_found")
    expect_refusal(caller.get("machines/cat/diagram.svg"), 404, "not_found")


def test_machines_have_diagrams(story) -> None:
    caller = Caller("read")
    drawing = caller.get("machines/task/diagram.svg?counts=true")
    assert drawing["Content-Type"].startswith("image/svg+xml")
    assert "script" not in drawing["Content-Security-Policy"]
    assert b'cancelled <tspan class="count">1</tspan>' in drawing.content
    assert caller.get("machines/task/diagram.mmd").content.startswith(b"stateDiagram-v2")


def test_the_numbers(story) -> None:
    answer = expect_ok(Caller("read").get("stats/"))
    assert answer["counts"]["task"]["cancelled"] == 1
    assert answer["position"] == head()
    assert answer["rates"]["override_rate"] > 0


def test_what_is_stuck(story, settings) -> None:
    settings.STATECORE_DEADLINES = {"worker.idle": 60.0}
    with time_machine.travel(now() + timedelta(hours=1)):
        (item,) = expect_ok(Caller("read").get("stuck/?entity_type=worker"))["results"]
    assert (item["id"], item["state"], item["kind"]) == (story["worker"].pk, "idle", "overdue")
    assert item["overdue_seconds"] > 3_000
    expect_refusal(Caller("read").get("stuck/?entity_type=cat"), 404, "not_found")


DECISION = [
    ("read", []),
    ("agent", []),
    ("operate", [("retry", "task"), ("transition", "workstream")]),
    ("override", [("retry", "task"), ("transition", "workstream"), ("override", "workstream")]),
]


@pytest.mark.parametrize(("scope", "offered"), DECISION, ids=[scope for scope, _offered in DECISION])
def test_a_decision_is_offered_as_the_calls_that_the_caller_may_make(
    scope: str, offered: list[tuple[str, str]], home
) -> None:
    caller = Caller(scope)
    task = hold_task()
    world.forced(task, "failed")

    found = [each for each in expect_ok(caller.get("stuck/"))["results"] if each["kind"] == "needs a decision"]
    (actions,) = [each["recovery"]["actions"] for each in found if each["entity_type"] == "workstream"]
    assert [(each["action"], each["entity_type"]) for each in actions] == offered
    for each in reversed(actions):
        body = {"transition": {"trigger": each.get("trigger")}, "retry": {}}.get(
            each["action"], {"to_state": each.get("to_state"), "reason": world.REASON, "category": "stuck"}
        )
        call = "transitions" if each["action"] == "transition" else each["action"]
        dry = caller.post(f"{each['collection']}/{each['id']}/{call}/", {**body, "dry_run": True})
        assert dry.status_code in (200, 201), dry.content


@pytest.mark.parametrize("size", [120, 500])
def test_the_stuck_list_is_paged_to_its_end(story, size: int) -> None:
    insert_copies(world.queued_task(), 600)
    caller, sizes, seen = Caller("read"), [], set()
    with time_machine.travel(now() + timedelta(hours=1)):
        path: str | None = f"stuck/?entity_type=task&page_size={size}"
        while path:
            answer = expect_ok(caller.get(path))
            sizes.append(len(answer["results"]))
            seen |= {each["id"] for each in answer["results"]}
            path = answer["next"] and answer["next"].split("/api/v1/")[1]
    assert set(sizes[:-1]) == {size}
    assert sum(sizes) == len(seen) > 600
    for nowhere in ("", "x", "9999-12-31T23:59:59.000000Z,late"):
        expect_refusal(caller.get(f"stuck/?cursor={nowhere}"), 404, "not_found")


def test_pages_of_events_forth_and_back(story) -> None:
    caller = Caller("read")
    seen: list[int] = []
    path: str | None = "events/?page_size=3&after=0"
    addresses = []
    while path:
        addresses.append(path)
        answer = expect_ok(caller.get(path))
        seen += [each["position"] for each in answer["results"]]
        path = answer["next"] and answer["next"].split("/api/v1/")[1]
    assert seen == [*range(1, head() + 1)]
    back = expect_ok(caller.get(addresses[1]))["previous"].split("/api/v1/")[1]
    first = expect_ok(caller.get(back))
    assert [each["position"] for each in first["results"]] == [1, 2, 3]
    assert first["previous"] is None
    assert expect_ok(caller.get(first["next"].split("/api/v1/")[1])) == expect_ok(caller.get(addresses[1]))

    newest = expect_ok(caller.get("events/?ordering=-position&page_size=2"))
    assert [each["position"] for each in newest["results"]] == [head(), head() - 1]
    assert newest["previous"] is None
    assert "before=" in newest["next"]


@pytest.mark.parametrize(("ordering", "seen"), [("position", [2, 3, 4, 5, 6, 7]), ("-position", [7, 6, 5, 4, 3, 2])])
def test_a_range_of_events_ends_at_the_given_position(ordering: str, seen: list[int], story) -> None:
    caller, found = Caller("read"), []
    path: str | None = f"events/?page_size=4&after=1&before=8&ordering={ordering}"
    while path:
        answer = expect_ok(caller.get(path))
        found += [each["position"] for each in answer["results"]]
        path = answer["next"] and answer["next"].split("/api/v1/")[1]
        assert answer["previous"] is None
    assert found == seen


def test_events_by_what_they_are(story) -> None:
    caller = Caller("read")
    forced = expect_ok(caller.get("events/?kind=override"))["results"]
    assert forced == expect_ok(caller.get("events/?actor=ada"))["results"]
    assert forced[0]["event"]["entity_id"] == story["task"].pk
    of_worker = expect_ok(caller.get(f"events/?entity={story['worker'].pk}&entity_type=worker"))["results"]
    assert [each["event"]["to_state"] for each in of_worker] == ["initializing", "idle"]
    assert expect_ok(caller.get(f"events/?since={rfc3339(now())}"))["results"] == []
    for wrong in ("severity=loud", "entity_type=cat", "after=-1", "since=yesterday", "ordering=name", "page_size=501"):
        expect_refusal(caller.get(f"events/?{wrong}"), 400, "invalid")


def test_events_by_their_state_and_name(story) -> None:
    caller, task = Caller("read"), story["task"]

    def find(path: str) -> list[tuple[str, str]]:
        results = expect_ok(caller.get(path))["results"]
        return [(each["event"]["entity_id"], each["event"]["to_state"]) for each in results]

    assert find("events/?to_state=cancelled&to_state=idle") == [(task.pk, "cancelled"), (story["worker"].pk, "idle")]
    assert find("events/?from_state=queued") == [(task.pk, "cancelled")]
    assert find("events/?event_name=manual_state_override") == [(task.pk, "cancelled")]
    assert find("events/?event_name=task_queued") == [(task.pk, "queued")]
    expect_refusal(caller.get("events/?event_name=task_vanished"), 400, "invalid")


def test_a_history_by_state_is_paged_forth_and_back(home) -> None:
    breaker, caller = world.created("CircuitBreaker", id="grep"), Caller("read")
    for state in ("OPEN", "CLOSED", "OPEN", "HALF_OPEN", "OPEN"):
        world.forced(breaker, state)

    def read(path: str) -> tuple[list[int], dict[str, Any]]:
        page = expect_ok(caller.get(path.partition("/api/v1/")[2] or path))
        return [event["sequence"] for event in page["results"]], page

    first, page = read("breakers/grep/transitions/?to_state=OPEN&page_size=2")
    second, last = read(page["next"])
    assert (first, second, last["next"]) == ([2, 4], [6], None)
    assert read(last["previous"])[0] == [2, 4]


def test_what_was_forced(story) -> None:
    (answer,) = expect_ok(Caller("read").get("overrides/"))["results"]
    assert (answer["entity_id"], answer["operator"], answer["held"], answer["left_by"]) == (
        story["task"].pk,
        "ada",
        True,
        None,
    )
    assert expect_ok(Caller("read").get("overrides/?actor=bob"))["results"] == []


def alert(**fields: Any) -> Alert:
    return Alert.objects.create(
        **{"rule": "r", "key": "k", "severity": "warning", "detail": "d", "opened_at": now(), **fields}
    )


def test_an_alert_is_acknowledged_once_by_a_permitted_user(story) -> None:
    raised = alert()
    path = f"alerts/{raised.pk}/acknowledge/"
    expect_refusal(Caller("agent").post(path), 403, "permission_denied")
    plain = User.objects.create_user("plain")
    plain.user_permissions.add(Permission.objects.get(codename="operate_task"))
    expect_refusal(Caller("operate", user=plain).post(path), 403, "permission_denied")
    plain.user_permissions.add(Permission.objects.get(codename="change_alert"))

    answer = expect_ok(Caller("operate", user=plain).post(path, {"note": "on it"}, **{"Idempotency-Key": "one"}))
    assert (answer["acknowledged_by"], answer["note"]) == ("plain", "on it")
    assert expect_ok(Caller("operate").post(path, {"note": "me too"}))["acknowledged_by"] == "plain"
    expect_refusal(Caller("operate").post(path, {"note": 7}), 400, "invalid")
    expect_refusal(Caller("operate").post(path, {"why": "?"}), 400, "invalid")
    expect_refusal(Caller("operate").post("alerts/999/acknowledge/"), 404, "not_found")

    caller = Caller("read")
    alert(key="other")
    assert len(expect_ok(caller.get("alerts/"))["results"]) == 2
    assert [each["key"] for each in expect_ok(caller.get("alerts/?acknowledged=false"))["results"]] == ["other"]
    first = expect_ok(caller.get("alerts/?page_size=1"))
    assert [each["key"] for each in first["results"]] == ["other"]
    assert [each["key"] for each in expect_ok(caller.get(first["next"].split("/api/v1/")[1]))["results"]] == ["k"]


def test_a_run_as_it_was(story) -> None:
    caller, run = Caller("read"), story["task"].run_id
    answer = expect_ok(caller.get(f"runs/{run}/at/"))
    assert answer["run"]["id"] == run
    assert [each["state"] for each in answer["tasks"]] == ["cancelled"]
    expect_refusal(caller.get(f"runs/{run}/at/?time=2001-01-01T00:00:00Z"), 404, "not_found")
    expect_refusal(caller.get(f"runs/{run}/at/?time=once"), 400, "invalid")


def test_verifying_all_of_it_stretch_by_stretch_finds_what_was_changed(story) -> None:
    caller = Caller("read")
    assert expect_ok(caller.get("audit/verify/"))["ok"]
    answer = expect_ok(caller.get("audit/verify/?after=0"))
    assert (answer["ok"], answer["position"], answer["next"]) == (True, head(), None)
    worker = story["worker"]
    assert expect_ok(caller.get(f"audit/verify/?entity_type=worker&entity={worker.pk}"))["ok"]
    expect_refusal(caller.get("audit/verify/?entity_type=worker&entity=nobody"), 404, "not_found")
    for half in ("entity_type=worker", f"entity={worker.pk}"):
        expect_refusal(caller.get(f"audit/verify/?{half}"), 400, "invalid")

    with triggers.disabled(connection), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE statecore_event SET to_state = 'busy' WHERE entity_id = %s AND sequence = 2", [worker.pk]
        )
    for query in ("", "?after=0", f"?entity_type=worker&entity={worker.pk}"):
        answer = expect_ok(caller.get(f"audit/verify/{query}"))
        assert not answer["ok"]
        assert answer["findings"][0]["entity_id"] == worker.pk
    assert expect_ok(caller.get(f"audit/verify/?entity_type=task&entity={story['task'].pk}"))["ok"]


def test_a_claim_that_found_nothing_may_be_repeated_under_its_key(story) -> None:
    caller = Caller("agent", name="w")
    expect_ok(caller.post("workers/", {"id": "w-1"}), 201)
    key = {"Idempotency-Key": "claim-1"}
    assert expect_ok(caller.post("workers/w-1/claim/", **key)) == {"tasks": []}
    task = world.queued_task()
    response = caller.post("workers/w-1/claim/", **key)
    assert [each["id"] for each in expect_ok(response)["tasks"]] == [task.pk]
    again = caller.post("workers/w-1/claim/", **key)
    assert again["Idempotent-Replayed"] == "true"
    assert expect_ok(again) == expect_ok(response)
