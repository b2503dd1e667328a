"""What operators and screens ask over REST."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import Permission, User
from django.db import connection

from statecore.board.overdue import kept
from statecore.kernel import registry, triggers
from statecore.kernel.clock import now, rfc3339
from statecore.records import Alert
from statecore.records.position import head
from statecore.sinks.counters import Counters
from tests.api.callers import Caller, done, refused
from tests.sinks.conftest import home
from tests.support import world
from tests.support.plans import copied
from tests.support.sequencer import catch_up

__all__ = ["home"]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def story(home) -> dict[str, Any]:
    kept.forget()
    task = world.queued_task()
    world.forced(task, "cancelled")
    worker = world.idle_worker()
    catch_up(Counters())
    return {"task": task, "worker": worker}


DRAWINGS = ["machines/task/diagram.svg", "machines/task/diagram.mmd"]
LISTS = ["machines/", "machines/task/", "stats/", "stuck/", "alerts/", "overrides/", "events/", "audit/verify/"]


@pytest.mark.parametrize("path", [*LISTS, *DRAWINGS])
def test_nothing_without_a_token_and_all_of_it_with_one_that_reads(client, path: str) -> None:
    refused(client.get(f"/api/v1/{path}"), 401, "not_authenticated")
    assert Caller("read").get(path).status_code == 200
    if path in LISTS:
        refused(Caller("read").get(f"{path}?nonsense=1"), 400, "invalid")


def test_machines_say_what_they_are(settings) -> None:
    settings.STATECORE_DEADLINES = {"task.running": 7.0}
    caller = Caller("read")
    told = done(caller.get("machines/"))["results"]
    assert {each["entity_type"] for each in told} >= {"task", "run", "patch_ledger"}
    task = done(caller.get("machines/task/"))
    assert task in told
    assert {"entity_type", "version", "initial", "states", "moves"} <= task.keys()
    assert {state["name"]: state["deadline_seconds"] for state in task["states"]}["running"] == 7.0
    assert {move["trigger"] for move in task["moves"]} == set(registry.flow("task").triggers)
    refused(caller.get("machines/cat/"), 404, "not_found")
    refused(caller.get("machines/cat/diagram.svg"), 404, "not_found")


def test_machines_draw_themselves(story) -> None:
    caller = Caller("read")
    drawing = caller.get("machines/task/diagram.svg?counts=true")
    assert drawing["Content-Type"].startswith("image/svg+xml")
    assert "script" not in drawing["Content-Security-Policy"]
    assert b'cancelled <tspan class="count">1</tspan>' in drawing.content
    assert caller.get("machines/task/diagram.mmd").content.startswith(b"stateDiagram-v2")


def test_the_numbers(story) -> None:
    told = done(Caller("read").get("stats/"))
    assert told["counts"]["task"]["cancelled"] == 1
    assert told["position"] == head()
    assert told["rates"]["override_rate"] > 0


def test_what_is_stuck(story, settings) -> None:
    settings.STATECORE_DEADLINES = {"worker.idle": 60.0}
    with time_machine.travel(now() + timedelta(hours=1)):
        (item,) = done(Caller("read").get("stuck/?entity_type=worker"))["results"]
    assert (item["id"], item["state"], item["kind"]) == (story["worker"].pk, "idle", "overdue")
    assert item["overdue_seconds"] > 3_000
    refused(Caller("read").get("stuck/?entity_type=cat"), 404, "not_found")


@pytest.mark.parametrize("size", [120, 500])
def test_what_is_stuck_is_told_to_its_end(story, size: int) -> None:
    copied(world.queued_task(), 600)
    caller, sizes, seen = Caller("read"), [], set()
    with time_machine.travel(now() + timedelta(hours=1)):
        path: str | None = f"stuck/?entity_type=task&page_size={size}"
        while path:
            told = done(caller.get(path))
            sizes.append(len(told["results"]))
            seen |= {each["id"] for each in told["results"]}
            path = told["next"] and told["next"].split("/api/v1/")[1]
    assert set(sizes[:-1]) == {size}
    assert sum(sizes) == len(seen) > 600
    for nowhere in ("", "x", "9999-12-31T23:59:59.000000Z,late"):
        refused(caller.get(f"stuck/?cursor={nowhere}"), 404, "not_found")


def test_pages_of_events_forth_and_back(story) -> None:
    caller = Caller("read")
    seen: list[int] = []
    path: str | None = "events/?page_size=3&after=0"
    addresses = []
    while path:
        addresses.append(path)
        told = done(caller.get(path))
        seen += [each["position"] for each in told["results"]]
        path = told["next"] and told["next"].split("/api/v1/")[1]
    assert seen == [*range(1, head() + 1)]
    back = done(caller.get(addresses[1]))["previous"].split("/api/v1/")[1]
    first = done(caller.get(back))
    assert [each["position"] for each in first["results"]] == [1, 2, 3]
    assert first["previous"] is None
    assert done(caller.get(first["next"].split("/api/v1/")[1])) == done(caller.get(addresses[1]))

    newest = done(caller.get("events/?ordering=-position&page_size=2"))
    assert [each["position"] for each in newest["results"]] == [head(), head() - 1]
    assert newest["previous"] is None
    assert "before=" in newest["next"]


@pytest.mark.parametrize(("ordering", "seen"), [("position", [2, 3, 4, 5, 6, 7]), ("-position", [7, 6, 5, 4, 3, 2])])
def test_a_stretch_of_events_ends_where_it_was_said_to(ordering: str, seen: list[int], story) -> None:
    caller, found = Caller("read"), []
    path: str | None = f"events/?page_size=4&after=1&before=8&ordering={ordering}"
    while path:
        told = done(caller.get(path))
        found += [each["position"] for each in told["results"]]
        path = told["next"] and told["next"].split("/api/v1/")[1]
        assert told["previous"] is None
    assert found == seen


def test_events_by_what_they_are(story) -> None:
    caller = Caller("read")
    forced = done(caller.get("events/?kind=override"))["results"]
    assert forced == done(caller.get("events/?actor=ada"))["results"]
    assert forced[0]["event"]["entity_id"] == story["task"].pk
    of_worker = done(caller.get(f"events/?entity={story['worker'].pk}&entity_type=worker"))["results"]
    assert [each["event"]["to_state"] for each in of_worker] == ["initializing", "idle"]
    assert done(caller.get(f"events/?since={rfc3339(now())}"))["results"] == []
    for wrong in ("severity=loud", "entity_type=cat", "after=-1", "since=yesterday", "ordering=name", "page_size=501"):
        refused(caller.get(f"events/?{wrong}"), 400, "invalid")


def test_what_was_forced(story) -> None:
    (told,) = done(Caller("read").get("overrides/"))["results"]
    assert (told["entity_id"], told["operator"], told["held"], told["left_by"]) == (story["task"].pk, "ada", True, None)
    assert done(Caller("read").get("overrides/?actor=bob"))["results"] == []


def alert(**fields: Any) -> Alert:
    return Alert.objects.create(
        **{"rule": "r", "key": "k", "severity": "warning", "detail": "d", "opened_at": now(), **fields}
    )


def test_an_alert_is_acknowledged_once_by_who_may(story) -> None:
    raised = alert()
    path = f"alerts/{raised.pk}/acknowledge/"
    refused(Caller("agent").post(path), 403, "permission_denied")
    plain = User.objects.create_user("plain")
    plain.user_permissions.add(Permission.objects.get(codename="operate_task"))
    refused(Caller("operate", user=plain).post(path), 403, "permission_denied")
    plain.user_permissions.add(Permission.objects.get(codename="change_alert"))

    told = done(Caller("operate", user=plain).post(path, {"note": "on it"}, **{"Idempotency-Key": "one"}))
    assert (told["acknowledged_by"], told["note"]) == ("plain", "on it")
    assert done(Caller("operate").post(path, {"note": "me too"}))["acknowledged_by"] == "plain"
    refused(Caller("operate").post(path, {"note": 7}), 400, "invalid")
    refused(Caller("operate").post(path, {"why": "?"}), 400, "invalid")
    refused(Caller("operate").post("alerts/999/acknowledge/"), 404, "not_found")

    caller = Caller("read")
    alert(key="other")
    assert len(done(caller.get("alerts/"))["results"]) == 2
    assert [each["key"] for each in done(caller.get("alerts/?acknowledged=false"))["results"]] == ["other"]
    first = done(caller.get("alerts/?page_size=1"))
    assert [each["key"] for each in first["results"]] == ["other"]
    assert [each["key"] for each in done(caller.get(first["next"].split("/api/v1/")[1]))["results"]] == ["k"]


def test_a_run_as_it_was(story) -> None:
    caller, run = Caller("read"), story["task"].run_id
    told = done(caller.get(f"runs/{run}/at/"))
    assert told["run"]["id"] == run
    assert [each["state"] for each in told["tasks"]] == ["cancelled"]
    refused(caller.get(f"runs/{run}/at/?time=2001-01-01T00:00:00Z"), 404, "not_found")
    refused(caller.get(f"runs/{run}/at/?time=once"), 400, "invalid")


def test_verifying_all_of_it_stretch_by_stretch_finds_what_was_changed(story) -> None:
    caller = Caller("read")
    assert done(caller.get("audit/verify/"))["ok"]
    told = done(caller.get("audit/verify/?after=0"))
    assert (told["ok"], told["position"], told["next"]) == (True, head(), None)
    worker = story["worker"]
    assert done(caller.get(f"audit/verify/?entity_type=worker&entity={worker.pk}"))["ok"]
    refused(caller.get("audit/verify/?entity_type=worker&entity=nobody"), 404, "not_found")
    for half in ("entity_type=worker", f"entity={worker.pk}"):
        refused(caller.get(f"audit/verify/?{half}"), 400, "invalid")

    with triggers.lowered(connection), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE statecore_event SET to_state = 'busy' WHERE entity_id = %s AND sequence = 2", [worker.pk]
        )
    for query in ("", "?after=0", f"?entity_type=worker&entity={worker.pk}"):
        told = done(caller.get(f"audit/verify/{query}"))
        assert not told["ok"]
        assert told["findings"][0]["entity_id"] == worker.pk
    assert done(caller.get(f"audit/verify/?entity_type=task&entity={story['task'].pk}"))["ok"]


def test_a_claim_that_found_nothing_may_be_repeated_under_its_key(story) -> None:
    caller = Caller("agent", name="w")
    done(caller.post("workers/", {"id": "w-1"}), 201)
    key = {"Idempotency-Key": "claim-1"}
    assert done(caller.post("workers/w-1/claim/", **key)) == {"tasks": []}
    task = world.queued_task()
    response = caller.post("workers/w-1/claim/", **key)
    assert [each["id"] for each in done(response)["tasks"]] == [task.pk]
    again = caller.post("workers/w-1/claim/", **key)
    assert again["Idempotent-Replayed"] == "true"
    assert done(again) == done(response)
