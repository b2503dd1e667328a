"""Approvals over REST: the request, the list, and the decision with one's own token or session."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import Group
from django.test import Client

from statecore.kernel.clock import now
from statecore.records import Approval, AuditNote
from tests.api.callers import Caller, expect_ok, expect_refusal, member
from tests.support import world
from tests.support.world import trace

pytestmark = pytest.mark.django_db

BODY = {"to_state": "failed", "reason": "long enough a reason", "category": "other"}


@pytest.fixture
def task(settings: Any) -> Any:
    settings.STATECORE_SECOND_PERSON = frozenset({"task->failed"})
    return world.running_task()


def ask(task: Any, caller: Caller, **headers: str) -> dict[str, Any]:
    return dict(expect_ok(caller.post(f"tasks/{task.pk}/override/", BODY, **headers), 202)["approval"])


def test_a_protected_override_answers_202_with_the_request(task: Any) -> None:
    ada = Caller("override")
    before = trace(task)
    answer = ask(task, ada)
    assert trace(task) == before
    assert answer["status"] == "pending"
    assert (answer["entity_type"], answer["entity_id"], answer["version"]) == ("task", task.pk, task.version)
    assert (answer["to_state"], answer["reason"]) == ("failed", BODY["reason"])
    assert answer["requested_by"] == ada.user.username
    assert answer["expires_at"] > answer["requested_at"]


def test_a_repeated_request_with_the_same_key_gets_the_same_answer(task: Any) -> None:
    ada, key = Caller("override"), {"Idempotency-Key": "once"}
    first = ask(task, ada, **key)
    again = ada.post(f"tasks/{task.pk}/override/", BODY, **key)
    assert (again.status_code, again["Idempotent-Replayed"]) == (202, "true")
    assert again.json() == {"approval": first}
    expect_refusal(ada.post(f"tasks/{task.pk}/override/", BODY), 409, "already_requested")


def test_a_dry_run_names_the_policies(task: Any) -> None:
    answer = expect_ok(Caller("override").post(f"tasks/{task.pk}/override/", {**BODY, "dry_run": True}))
    assert answer["policies"] == ["task->failed"]
    assert answer["event"]["approver"] is None
    assert not Approval.objects.exists()


def test_another_person_approves_with_their_own_token(task: Any) -> None:
    ada, bob = Caller("override"), Caller("override", user=member("bob", "supervisor"))
    made = ask(task, ada)
    answer = expect_ok(bob.post(f"approvals/{made['id']}/approve/", {"comment": "seen"}))
    assert (answer["changed"], answer["entity"]["state"]) == (True, "failed")
    assert (answer["event"]["operator"], answer["event"]["approver"]) == (ada.user.username, "bob")
    assert (answer["approval"]["status"], answer["approval"]["comment"]) == ("approved", "seen")
    assert answer["approval"]["event_id"] == answer["event"]["event_id"]


def test_another_person_approves_with_their_own_session(task: Any) -> None:
    made = ask(task, Caller("override"))
    client = Client(enforce_csrf_checks=False)
    client.force_login(member("bob", "supervisor"))
    answer = client.post(f"/api/v1/approvals/{made['id']}/approve/", "{}", content_type="application/json")
    assert expect_ok(answer)["event"]["approver"] == "bob"


def test_another_person_denies(task: Any) -> None:
    made, before = ask(task, Caller("override")), trace(task)
    bob = Caller("override", user=member("bob", "supervisor"))
    answer = expect_ok(bob.post(f"approvals/{made['id']}/deny/", {"comment": "no"}))
    assert (answer["approval"]["status"], answer["approval"]["decided_by"]) == ("denied", "bob")
    assert trace(task) == before
    expect_refusal(bob.post(f"approvals/{made['id']}/approve/"), 409, "already_decided")


@pytest.mark.parametrize("decision", ["approve", "deny"])
@pytest.mark.parametrize("who", ["the same token", "another token", "a session"])
def test_the_same_account_is_refused(task: Any, who: str, decision: str) -> None:
    ada = Caller("override", user=member("ada", "supervisor"))
    made, before = ask(task, ada), trace(task)
    path = f"approvals/{made['id']}/{decision}/"
    if who == "a session":
        client = Client()
        client.force_login(ada.user)
        answer = client.post(f"/api/v1/{path}", "{}", content_type="application/json")
    else:
        answer = (ada if who == "the same token" else Caller("override", user=ada.user)).post(path)
    expect_refusal(answer, 403, "same_person")
    assert trace(task) == before
    (note,) = AuditNote.objects.filter(kind="override_refused")
    assert (note.actor, note.facts["code"], note.facts["decision"]) == ("ada", "same_person", decision)


@pytest.mark.parametrize("who", ["read", "agent", "operate", "an operator", "demoted"])
def test_an_unsuitable_second_person_is_refused(task: Any, who: str) -> None:
    made, before = ask(task, Caller("override")), trace(task)
    if who == "an operator":
        caller = Caller("operate", user=member("bob", "operator"))
    elif who == "demoted":
        caller = Caller("override", user=member("bob", "supervisor"))
        caller.user.groups.clear()
    else:
        caller = Caller(who)
    for decision in ("approve", "deny"):
        expect_refusal(caller.post(f"approvals/{made['id']}/{decision}/"), 403, "permission_denied")
    assert trace(task) == before
    assert expect_ok(Caller("read").get(f"approvals/{made['id']}/"))["status"] == "pending"


def test_a_policy_with_a_group_takes_one_of_its_members(task: Any, settings: Any) -> None:
    settings.STATECORE_SECOND_PERSON = frozenset({"task->failed by supervisor"})
    made = ask(task, Caller("override"))
    refused = expect_refusal(Caller("override").post(f"approvals/{made['id']}/approve/"), 403, "permission_denied")
    assert refused["required"] == "group supervisor"
    bob = Caller("override", user=member("bob", "supervisor"))
    assert expect_ok(bob.post(f"approvals/{made['id']}/approve/"))["changed"]


def test_an_entity_that_moved_is_409_stale_version(task: Any) -> None:
    ada, bob = Caller("override"), Caller("override")
    made = ask(task, ada)
    expect_ok(bob.post(f"tasks/{task.pk}/override/", {**BODY, "to_state": "queued"}))
    answer = expect_refusal(bob.post(f"approvals/{made['id']}/approve/"), 409, "stale_version")
    assert answer["version"] == task.version + 1
    assert expect_ok(bob.get(f"approvals/{made['id']}/"))["status"] == "outdated"


def test_an_expired_request_is_refused(task: Any) -> None:
    made = ask(task, Caller("override"))
    with time_machine.travel(now() + timedelta(days=2)):
        for decision in ("approve", "deny"):
            answer = Caller("override").post(f"approvals/{made['id']}/{decision}/")
            assert expect_refusal(answer, 409, "approval_expired")["approval"]["status"] == "expired"


def test_a_repeated_approval_with_the_same_key_is_answered_once(task: Any) -> None:
    made, bob = ask(task, Caller("override")), Caller("override")
    answers = [bob.post(f"approvals/{made['id']}/approve/", **{"Idempotency-Key": "once"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()


def test_an_ordinary_step_after_a_forced_one_is_refused(settings: Any) -> None:
    settings.STATECORE_SECOND_PERSON = frozenset({"run->canceled"})
    run, ada = world.fire(world.run(), "run_started"), Caller("override")
    expect_ok(ada.post(f"runs/{run.pk}/override/", {**BODY, "to_state": "pending"}))
    body = {"trigger": "run_canceled", "reason": "one more step"}
    answer = expect_refusal(ada.post(f"runs/{run.pk}/transitions/", body), 403, "approval_required")
    assert answer["policies"] == ["run->canceled"]
    expect_ok(Caller("operate").post(f"runs/{run.pk}/transitions/", body))


def test_attack_9_a_token_handed_over_in_a_header_approves_nothing(task: Any) -> None:
    ada, bob, before = Caller("override"), Caller("override"), trace(task)
    ask(task, ada, **{"Approver-Authorization": f"Bearer {bob.text}"})
    assert trace(task) == before


# The list


def test_the_list_is_filtered_by_status_and_pages(settings: Any) -> None:
    settings.STATECORE_SECOND_PERSON = frozenset({"task->failed"})
    ada, bob = Caller("override"), Caller("override")
    made = [ask(world.running_task(), ada)["id"] for _ in range(4)]
    expect_ok(bob.post(f"approvals/{made[0]}/deny/"))
    expect_ok(bob.post(f"approvals/{made[1]}/approve/"))
    found = {status: ids_of(bob, f"approvals/?status={status}") for status in ("pending", "denied", "approved")}
    assert found == {"pending": [made[3], made[2]], "denied": [made[0]], "approved": [made[1]]}
    assert ids_of(bob, "approvals/") == made[::-1]
    page = expect_ok(bob.get("approvals/?page_size=3"))
    rest = page["next"].partition("/api/v1/")[2]
    assert [each["id"] for each in page["results"]] + ids_of(bob, rest) == made[::-1]
    with time_machine.travel(now() + timedelta(days=2)):
        assert ids_of(bob, "approvals/?status=expired") == [made[3], made[2]]
        assert ids_of(bob, "approvals/?status=pending") == []


def ids_of(caller: Caller, path: str) -> list[str]:
    return [each["id"] for each in expect_ok(caller.get(path))["results"]]


@pytest.mark.parametrize("query", ["status=open", "before=..", "colour=red", "page_size=0"])
def test_an_unknown_parameter_is_refused(query: str) -> None:
    expect_refusal(Caller("read").get(f"approvals/?{query}"), 400, "invalid")


def test_requests_of_machines_that_the_caller_may_not_see_are_hidden(task: Any) -> None:
    made = ask(task, Caller("override"))
    user = member("eve")
    Group.objects.get(name="viewer").permissions.remove(
        *Group.objects.get(name="viewer").permissions.filter(codename="view_task")
    )
    eve = Caller("read", user=user)
    assert ids_of(eve, "approvals/") == []
    expect_refusal(eve.get(f"approvals/{made['id']}/"), 403, "permission_denied")
    expect_refusal(eve.get("approvals/?entity_type=task"), 403, "permission_denied")


def test_a_request_that_does_not_exist_is_404() -> None:
    caller = Caller("override")
    expect_refusal(caller.get("approvals/appr_none/"), 404, "not_found")
    expect_refusal(caller.post("approvals/appr_none/approve/"), 404, "not_found")
