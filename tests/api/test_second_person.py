"""Where the policy demands a second person, over REST: somebody else, who may override, with a token of their own."""

from __future__ import annotations

from typing import Any

import pytest

from statecore.records import AuditNote
from tests.api.callers import Caller, done, member, refused
from tests.support import world

pytestmark = pytest.mark.django_db

BODY = {"to_state": "failed", "reason": "long enough a reason", "category": "other"}


@pytest.fixture
def place(settings: Any) -> str:
    task = world.running_task()
    settings.STATECORE_SECOND_PERSON = frozenset({"task.running->failed"})
    return f"tasks/{task.pk}/override/"


def approved_by(other: Caller) -> dict[str, str]:
    return {"Approver-Authorization": f"Bearer {other.text}"}


def test_alone_nobody_forces_it_but_everybody_may_look(place: str) -> None:
    ada = Caller("override")
    told = refused(ada.post(place, BODY), 403, "permission_denied")
    assert told["required"] == "second_person"
    shown = done(ada.post(place, {**BODY, "dry_run": True}))
    assert shown["event"]["approver"] is None


def test_somebody_else_who_may_override_is_enough(place: str) -> None:
    ada, bob = Caller("override"), Caller("override", user=member("bob", "supervisor"))
    told = done(ada.post(place, BODY, **approved_by(bob)))
    assert told["event"]["approver"] == "bob"
    assert told["event"]["operator"] == ada.user.username


@pytest.mark.parametrize("who", ["oneself", "another token of oneself", "operate", "lost the right", "nobody"])
def test_who_is_no_second_person(place: str, who: str) -> None:
    ada = Caller("override")
    others = {
        "oneself": lambda: ada,
        "another token of oneself": lambda: Caller("override", user=ada.user),
        "operate": lambda: Caller("operate"),
        "lost the right": _demoted,
        "nobody": _gone,
    }
    refused(ada.post(place, BODY, **approved_by(others[who]())), 403, "permission_denied")
    assert noted() == [(ada.user.username, "permission_denied")]


@pytest.mark.parametrize("header", ["Bearer stc_made_up", "Basic YTpi", "Bearer", "nonsense"])
@pytest.mark.parametrize("is_demanded", [True, False])
def test_a_token_that_is_no_good_is_refused_and_on_record(
    place: str, header: str, is_demanded: bool, settings: Any
) -> None:
    if not is_demanded:
        settings.STATECORE_SECOND_PERSON = frozenset()
    ada = Caller("override")
    for body in (BODY, {**BODY, "dry_run": True}):
        told = refused(ada.post(place, body, **{"Approver-Authorization": header}), 403, "permission_denied")
        assert (told["required"], told["detail"]) == ("second_person", "the second person's token is not valid")
    assert noted() == [(ada.user.username, "permission_denied")] * 2
    assert header.split()[-1] not in str(list(AuditNote.objects.values()))


def noted() -> list[tuple[str, str]]:
    return [(note.actor, note.facts["code"]) for note in AuditNote.objects.filter(kind="override_refused")]


def _demoted() -> Caller:
    bob = Caller("override", user=member("bob", "supervisor"))
    bob.user.groups.clear()
    return bob


def _gone() -> Caller:
    bob = Caller("override")
    bob.user.is_active = False
    bob.user.save()
    return bob
