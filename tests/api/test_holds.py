"""Holds over REST: who places, lists and releases them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from statecore.kernel.clock import now, rfc3339
from tests.api.callers import Caller, expect_ok, expect_refusal, member
from tests.support import world

pytestmark = pytest.mark.django_db
BODY = {"scope": "everything", "reason": "the disk is full"}


def place(caller: Caller, **more: Any) -> dict[str, Any]:
    return dict(expect_ok(caller.post("holds/", {**BODY, **more}), 201))


def test_a_hold_is_placed_listed_and_released() -> None:
    ada = Caller("operate")
    expires_at = rfc3339(now() + timedelta(hours=1))
    hold = place(ada, expires_at=expires_at)
    assert (hold["scope"], hold["status"], hold["created_by"]) == ("everything", "active", ada.user.username)
    assert hold["expires_at"] == expires_at
    assert expect_ok(ada.get("holds/?status=active"))["results"] == [hold]
    assert expect_ok(ada.get(f"holds/{hold['id']}/")) == hold
    assert [each["id"] for each in expect_ok(ada.get("stats/"))["holds"]] == [hold["id"]]
    released = expect_ok(ada.post(f"holds/{hold['id']}/release/", {"reason": "space again"}))
    assert (released["status"], released["released_by"]) == ("released", ada.user.username)
    assert released["release_reason"] == "space again"
    assert expect_ok(ada.get("holds/?status=active"))["results"] == []
    refusal = expect_refusal(ada.post(f"holds/{hold['id']}/release/", {"reason": "again"}), 409, "terminal_state")
    assert refusal["state"] == "released"


def test_a_repeated_request_places_one_hold() -> None:
    ada, key = Caller("operate"), {"Idempotency-Key": "once"}
    first = expect_ok(ada.post("holds/", BODY, **key), 201)
    again = ada.post("holds/", BODY, **key)
    assert (again.status_code, again.json(), again["Idempotent-Replayed"]) == (201, first, "true")
    assert len(expect_ok(ada.get("holds/"))["results"]) == 1


def test_pages_go_from_the_newest_to_the_oldest() -> None:
    ada = Caller("operate")
    ids = [place(ada)["id"] for _ in range(3)]
    page = expect_ok(ada.get("holds/?page_size=2"))
    assert [each["id"] for each in page["results"]] == ids[:0:-1]
    rest = expect_ok(ada.get(page["next"].partition("/api/v1/")[2]))
    assert ([each["id"] for each in rest["results"]], rest["next"]) == (ids[:1], None)


def test_only_operators_with_the_permission_hold_and_release() -> None:
    hold = place(Caller("operate"))
    viewer = Caller("read", user=member("vera"))
    assert len(expect_ok(viewer.get("holds/"))["results"]) == 1
    for caller in (viewer, Caller("agent")):
        expect_refusal(caller.post("holds/", BODY), 403, "permission_denied")
        expect_refusal(caller.post(f"holds/{hold['id']}/release/", {"reason": "no"}), 403, "permission_denied")
    operator = Caller("operate", user=member("otto", "operator"))
    expect_ok(operator.post(f"holds/{place(operator)['id']}/release/", {"reason": "done"}))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scope": "all"}, "scope"),
        ({"scope": "run:none"}, "scope"),
        ({"reason": " "}, "reason"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2030-01-01T00:00:00"}, "expires_at"),
        ({"until": "tomorrow"}, "until"),
    ],
)
def test_a_body_that_means_nothing_is_refused_by_field(body: dict[str, Any], field: str) -> None:
    problem = expect_refusal(Caller("operate").post("holds/", {**BODY, **body}), 400, "invalid")
    assert problem["errors"].keys() == {field}


def test_a_queued_task_explains_the_hold() -> None:
    ada, task = Caller("operate"), world.queued_task()
    place(ada, scope=f"run:{task.run_id}")
    sentence = expect_ok(ada.get(f"tasks/{task.pk}/explain/"))["sentence"]
    assert sentence.endswith(f"held: run {task.run_id}, by {ada.user.username}, until it is released")
