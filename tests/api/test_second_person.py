"""Where the policy demands a second person, over REST: somebody else, who may override, with a token of their own."""

from __future__ import annotations

from typing import Any

import pytest

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


def _demoted() -> Caller:
    bob = Caller("override", user=member("bob", "supervisor"))
    bob.user.groups.clear()
    return bob


def _gone() -> Caller:
    bob = Caller("override")
    bob.user.is_active = False
    bob.user.save()
    return bob
