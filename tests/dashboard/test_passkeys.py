"""Passkeys as a second factor: adding, logging in, removing, and responses that prove nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings as configured
from django.contrib.auth.models import User
from django.test import Client

from statecore.dashboard import second_factor
from statecore.journal import Event
from statecore.records import Passkey
from tests.support.authenticator import Authenticator

pytestmark = [pytest.mark.django_db, pytest.mark.once_on("sqlite")]

PASSWORD = "correct horse battery"
PAGE, CODE, ENROL = "/second-factor/", "/login/code/", "/login/enrol/"


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create_superuser("ann", password=PASSWORD)


@pytest.fixture
def key() -> Authenticator:
    return Authenticator()


def add(client: Client, key: Authenticator, **given: str) -> Any:
    response = key.create(client.get(PAGE).context["creation"])
    form = {"do": "add_passkey", "name": "key ring", "password": PASSWORD, "passkey": response, **given}
    return client.post(PAGE, form)


def added(user: User, key: Authenticator) -> list[str]:
    """Adds the passkey in another browser and returns the recovery codes."""
    client = Client()
    client.force_login(user)
    codes: list[str] = add(client, key).context["codes"]
    return codes


def log_in(client: Client, key: Authenticator, **wrong: Any) -> Any:
    client.post("/login/", {"username": "ann", "password": PASSWORD})
    options = client.get(CODE).context["proof"]
    return client.post(CODE, {"passkey": key.get(options, **wrong)})


def is_in(client: Client) -> bool:
    return bool(client.get("/tokens/").status_code == 200)


def test_a_passkey_is_added_with_the_password_and_is_needed_from_then_on(
    ann: User, client: Client, key: Authenticator
) -> None:
    client.force_login(ann)
    assert add(client, key, password="wrong").status_code == 422
    assert not Passkey.objects.exists()

    assert len(add(client, key).context["codes"]) == second_factor.RECOVERY_CODES
    assert add(client, key).status_code == 422  # the same key again
    browser = Client()
    assert browser.post("/login/", {"username": "ann", "password": PASSWORD})["Location"] == CODE
    assert not is_in(browser)
    assert log_in(browser, key)["Location"] == "/"
    assert is_in(browser)
    entries = Event.objects.filter(entity_id=f"user:{ann.pk}").order_by("sequence")
    assert [entry.trigger for entry in entries][-3:] == [
        "second_factor_enrolled",
        "recovery_codes_created",
        "logged_in",
    ]
    assert entries.get(trigger="second_factor_enrolled").as_dict()["metadata"] == {"passkey": "key ring"}


def test_a_response_that_is_not_for_this_login_is_refused(ann: User, client: Client, key: Authenticator) -> None:
    added(ann, key)
    for wrong in (
        {"origin": "https://testserver.example"},
        {"challenge": "bm90IHRoZSBvbmUgb2YgdGhpcyBwYWdl"},
        {"type": "webauthn.create"},
        {"site": "elsewhere"},
        {"flags": 0},
        {"uses": 1},  # a copy of the key that was used less
    ):
        assert log_in(Client(), key, uses=key.uses + 2).status_code == 302
        uses = key.uses
        assert log_in(client, key, **wrong).status_code == 200, wrong
        key.uses = uses
    assert not is_in(client)


def test_a_response_works_once_and_only_for_its_owner(ann: User, client: Client, key: Authenticator) -> None:
    """The attack: somebody who knows the password repeats a response, or signs with a key of their own."""
    added(ann, key)
    other = Authenticator()
    added(User.objects.create_user("eve", password=PASSWORD), other)
    other.id = key.id
    assert log_in(client, other).status_code == 200
    client.post("/login/", {"username": "ann", "password": PASSWORD})
    response = key.get(client.get(CODE).context["proof"])
    assert client.post(CODE, {"passkey": response}).status_code == 302
    client.post("/logout/")
    client.post("/login/", {"username": "ann", "password": PASSWORD})
    assert client.post(CODE, {"passkey": response}).status_code == 200
    assert not is_in(client)


def test_what_is_no_response_is_refused_and_counted(ann: User, client: Client, key: Authenticator) -> None:
    added(ann, key)
    client.post("/login/", {"username": "ann", "password": PASSWORD})
    answers = []
    for response in ("{", "[]", '{"id": 1}', "\0", "x" * 70_000):
        answers.append(client.post(CODE, {"passkey": response}).status_code)
        client.get(CODE)
    assert answers == [200] * (configured.AXES_FAILURE_LIMIT - 1) + [429]


def test_a_recovery_code_replaces_a_lost_passkey(ann: User, client: Client, key: Authenticator) -> None:
    codes = added(ann, key)
    client.post("/login/", {"username": "ann", "password": PASSWORD})
    assert client.post(CODE, {"code": codes[0]}).status_code == 302
    (passkey,) = Passkey.objects.all()
    assert client.post(PAGE, {"do": "remove_passkey", "remove_passkey": passkey.pk}).status_code == 422
    proof = key.get(client.get(PAGE).context["proof"])
    form = {"do": "remove_passkey", "remove_passkey": passkey.pk, "passkey": proof}
    assert client.post(PAGE, form).status_code == 302
    assert not second_factor.is_set_up(ann)
    assert not second_factor.count_recovery_codes(ann)
    assert Event.objects.filter(trigger="second_factor_removed").exists()


def test_the_passkey_of_another_account_cannot_be_removed(ann: User, client: Client, key: Authenticator) -> None:
    codes = added(ann, key)
    added(User.objects.create_user("eve", password=PASSWORD), Authenticator())
    theirs = Passkey.objects.get(user__username="eve")
    client.force_login(ann)
    form = {"do": "remove_passkey", "remove_passkey": theirs.pk, "code": codes[0]}
    assert client.post(PAGE, form).status_code == 422
    assert Passkey.objects.filter(pk=theirs.pk).exists()


def test_where_required_a_passkey_is_added_during_the_login(
    ann: User, client: Client, key: Authenticator, settings: Any
) -> None:
    settings.STATECORE_SECOND_FACTOR = "required"
    client.post("/login/", {"username": "ann", "password": PASSWORD})
    assert client.post(ENROL, {"passkey": "{}"}).context["is_wrong"]
    answer = client.post(ENROL, {"name": "key", "passkey": key.create(client.get(ENROL).context["creation"])})
    assert len(answer.context["codes"]) == second_factor.RECOVERY_CODES
    assert is_in(client)
