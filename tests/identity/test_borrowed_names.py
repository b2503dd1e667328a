"""The attack: a token or user takes a name that is shown as another actor."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError

from statecore import transitions
from statecore.kernel.actors import Actor, Channel
from statecore.kernel.refusals import DuplicateId, Invalid
from statecore.records import token as tokens
from tests.api.callers import member
from tests.support import world

pytestmark = pytest.mark.django_db

LOOK_ALIKES = [
    "system",
    "System",
    "statecore",
    "manage.py token",
    "ada\u200b",  # zero-width space
    "\u0430da",  # Cyrillic a
    "a\u0308da",  # combining mark
    "ada\u202e",  # right-to-left override
    " ada",
    "ada ",
    "",
]


@pytest.fixture
def ada() -> User:
    return member("ada", "supervisor")


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_token_cannot_borrow_a_name(ada: User, name: str) -> None:
    with pytest.raises(Invalid) as refused:
        tokens.make(name, ada, "agent")
    assert refused.value.facts["errors"]["name"]


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_user_cannot_borrow_a_name(name: str) -> None:
    with pytest.raises((ValidationError, ValueError)):
        User.objects.create_user(name)
    assert not User.objects.filter(username=name).exists()


@pytest.mark.parametrize("name", ["ada", "ADA", "\uff41da"])  # the last one is normalised to the first
def test_a_user_cannot_have_the_name_of_a_user(ada: User, name: str) -> None:
    with pytest.raises((ValidationError, IntegrityError)):
        User.objects.create_user(name)


@pytest.mark.parametrize("name", ["ada", "ADA"])
def test_a_token_cannot_have_the_name_of_a_user(ada: User, name: str) -> None:
    with pytest.raises(DuplicateId):
        tokens.make(name, ada, "agent")


@pytest.mark.parametrize("name", ["builder", "Builder"])
def test_a_user_or_token_cannot_have_the_name_of_a_token(ada: User, name: str) -> None:
    tokens.make("builder", ada, "agent")
    with pytest.raises(ValidationError, match="token"):
        User.objects.create_user(name)
    with pytest.raises(DuplicateId):
        tokens.make(name, ada, "agent")


def test_a_user_cannot_be_renamed_to_a_borrowed_name(ada: User) -> None:
    ada.username = "system"
    with pytest.raises(ValidationError):
        ada.save()


def test_an_event_carries_the_identity_of_the_account_beside_its_name(ada: User) -> None:
    token, _text = tokens.make("builder", ada, "operate")
    run = world.run()
    actors = {Actor.operator(ada, Channel.CONSOLE): f"user:{ada.pk}", token.as_operator(): f"user:{ada.pk}"}
    for actor, identity in actors.items():
        outcome = transitions.create(type(run), actor=actor, phase=run.phase_id)
        assert outcome.as_dict()["event"]["identity"] == identity
    outcome = transitions.create(type(run), actor=token.as_agent(), phase=run.phase_id)
    assert outcome.as_dict()["event"]["identity"] == f"token:{token.prefix}"
    assert world.events_of(run)[0]["identity"] is None


def test_a_name_given_to_another_account_has_another_identity(ada: User) -> None:
    first = Actor.operator(ada, Channel.CONSOLE).account
    ada.username = "ada.former"
    ada.save()
    successor = member("ada", "supervisor")
    assert Actor.operator(successor, Channel.CONSOLE).account != first
