"""The inbox of approvals: the request of one person, the decision of another, each in their own session."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from statecore.records import Approval
from tests.api.callers import member
from tests.dashboard.scene import Scene
from tests.support import world

pytestmark = pytest.mark.django_db

ASKED = {"to": "failed", "reason": "long enough a reason", "category": "other"}


@pytest.fixture
def bob(people: dict[str, Any], settings: Any) -> User:
    settings.STATECORE_SECOND_PERSON = frozenset({"task->failed by supervisor"})
    return member("bob", "supervisor")


def ask(client: Client, person: Any) -> Approval:
    client.force_login(person)
    answer = client.post(reverse("console:force", args=["tasks", "scene-t1"]), ASKED)
    made = Approval.objects.latest("pk")
    assert answer.headers["Location"] == reverse("console:approval", args=[made.pk])
    return made


def text_of(client: Client, name: str, *args: str) -> str:
    answer = client.get(reverse(f"console:{name}", args=args))
    assert answer.status_code == 200
    return answer.content.decode()


def decide(client: Client, made: Approval, decision: str, **fields: str) -> Any:
    return client.post(reverse("console:decide", args=[made.pk]), {"decision": decision, **fields})


def test_a_protected_state_is_requested_and_the_page_shows_it(
    people: dict[str, Any], bob: User, scene: Scene, client: Client
) -> None:
    client.force_login(people["supervisor"])
    form = text_of(client, "force", "tasks", "scene-t1")
    assert 'type="password"' not in form.lower()
    shown = client.get(reverse("console:force", args=["tasks", "scene-t1"]), {"to": "failed"}).content.decode()
    assert "Requires approval" in shown
    assert "Request approval to force task to failed" in shown
    made = ask(client, people["supervisor"])
    assert "You requested this" in text_of(client, "approval", made.pk)
    assert "Waiting for approval by another person of the group supervisor" in text_of(
        client, "entity", "tasks", "scene-t1"
    )
    scene.first.refresh_from_db()
    assert scene.first.state == "queued"


def test_another_person_finds_the_request_and_approves_it(
    people: dict[str, Any], bob: User, scene: Scene, client: Client
) -> None:
    made = ask(client, people["supervisor"])
    client.force_login(bob)
    assert 'data-tally="approvals">1<' in text_of(client, "approvals")
    assert "downstream change" in text_of(client, "approval_preview", made.pk)
    answer = decide(client, made, "approve", comment="seen <b>it</b>")
    assert answer.status_code == 302
    assert "approved by <strong>bob</strong>" in client.get(answer.headers["Location"]).content.decode()
    scene.first.refresh_from_db()
    assert scene.first.state == "failed"
    history = text_of(client, "approvals")
    assert "No pending requests" in history
    assert "seen &lt;b&gt;it&lt;/b&gt;" in history
    assert 'data-tally="approvals"><' in history


def test_another_person_denies_with_a_comment(people: dict[str, Any], bob: User, scene: Scene, client: Client) -> None:
    made = ask(client, people["supervisor"])
    client.force_login(bob)
    assert decide(client, made, "deny", comment="not tonight").headers["Location"] == reverse("console:approvals")
    page = text_of(client, "approvals")
    assert "Nothing was changed" in page
    assert "not tonight" in page
    scene.first.refresh_from_db()
    assert scene.first.state == "queued"


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_the_requester_is_not_offered_the_decision_and_refused(
    people: dict[str, Any], bob: User, scene: Scene, client: Client, decision: str
) -> None:
    made = ask(client, people["supervisor"])
    assert 'data-tally="approvals"><' in text_of(client, "approvals")
    assert 'name="decision"' not in text_of(client, "approval", made.pk)
    answer = decide(client, made, decision)
    assert answer.status_code == 422
    assert "another person decides" in answer.content.decode()
    scene.first.refresh_from_db()
    assert scene.first.state == "queued"


@pytest.mark.parametrize("person", ["viewer", "operator"])
def test_a_request_is_read_only_without_the_override_permission(
    people: dict[str, Any], bob: User, scene: Scene, client: Client, person: str
) -> None:
    made = ask(client, people["supervisor"])
    client.force_login(people[person])
    assert "To decide this request you need the permission" in text_of(client, "approvals")
    assert decide(client, made, "approve").status_code == 403


def test_a_changed_entity_closes_the_request_and_keeps_the_comment(
    people: dict[str, Any], bob: User, scene: Scene, client: Client
) -> None:
    made = ask(client, people["supervisor"])
    world.forced(scene.first, "blocked")
    client.force_login(bob)
    assert "Approving would be refused" in text_of(client, "approval_preview", made.pk)
    answer = decide(client, made, "approve", comment="looks right")
    assert answer.status_code == 409
    assert "Outdated" in answer.content.decode()
    assert Approval.objects.get(pk=made.pk).status == "outdated"


def test_a_decision_submitted_twice_is_made_once(
    people: dict[str, Any], bob: User, scene: Scene, client: Client
) -> None:
    made = ask(client, people["supervisor"])
    client.force_login(bob)
    first, second = (decide(client, made, "approve", key="once") for _ in range(2))
    assert (first.status_code, second.status_code) == (302, 302)
    assert first.headers["Location"] == second.headers["Location"]


def test_an_unknown_decision_is_not_found(people: dict[str, Any], bob: User, scene: Scene, client: Client) -> None:
    made = ask(client, people["supervisor"])
    client.force_login(bob)
    assert decide(client, made, "maybe").status_code == 404
    assert client.get(reverse("console:approval", args=["appr_none"])).status_code == 404


def test_a_read_only_console_decides_nothing(
    people: dict[str, Any], bob: User, scene: Scene, client: Client, settings: Any
) -> None:
    made = ask(client, people["supervisor"])
    client.force_login(bob)
    settings.STATECORE_READ_ONLY = True
    assert decide(client, made, "approve").status_code == 403
    assert Approval.objects.get(pk=made.pk).status == "pending"
