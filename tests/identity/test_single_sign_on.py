"""Sign-in with a real OpenID provider: accounts, groups, sessions that end, and tokens that prove nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import httpx
import pytest
import time_machine
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client
from joserfc.jwk import RSAKey

from statecore.accounts import single_sign_on
from statecore.delivery.sinks import alert_rules
from statecore.journal import Event
from statecore.kernel.clock import now
from statecore.records import ExternalIdentity
from tests.support import openid

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
ADDRESS = "203.0.113.9"
PAGE = "/account/"


@pytest.fixture(scope="module")
def the_provider() -> Iterator[openid.Provider]:
    with openid.running() as provider:
        yield provider


@pytest.fixture
def provider(the_provider: openid.Provider, settings: Any) -> openid.Provider:
    the_provider.reset()
    cache.clear()
    settings.STATECORE_OIDC_ISSUER = the_provider.issuer
    settings.STATECORE_OIDC_CLIENT_ID, settings.STATECORE_OIDC_CLIENT_SECRET = openid.CLIENT, openid.SECRET
    settings.STATECORE_SIGN_IN_GROUPS = {"engineers": "operator", "on-call": "supervisor"}
    return the_provider


@pytest.fixture
def visitor() -> Client:
    return Client(REMOTE_ADDR=ADDRESS)


def go_to_provider(visitor: Client, next_url: str = PAGE) -> str:
    """Starts a sign-in, and returns where the provider sends the browser back to."""
    response = visitor.get("/login/sso/", {"next": next_url})
    assert response.status_code == 302, response.content.decode()
    return httpx.get(response["Location"], trust_env=False).headers["Location"].removeprefix("http://testserver")


def sign_in(visitor: Client, next_url: str = PAGE) -> Any:
    return visitor.get(go_to_provider(visitor, next_url))


def is_in(visitor: Client) -> bool:
    return bool(visitor.get("/tokens/").status_code == 200)


def entries(account: str) -> list[tuple[str, str]]:
    found = Event.objects.filter(entity_type="account", entity_id=account).order_by("sequence")
    return [(entry.trigger, entry.actor) for entry in found]


def groups(name: str = "ann") -> set[str]:
    return set(User.objects.get(username=name).groups.values_list("name", flat=True))


# Accounts


def test_a_person_who_is_new_gets_an_account_with_groups_and_entries(
    provider: openid.Provider, visitor: Client
) -> None:
    assert sign_in(visitor, "/incidents/")["Location"] == "/incidents/"

    ann = User.objects.get(username="ann")
    assert is_in(visitor)
    assert groups() == {"operator"}
    assert not ann.has_usable_password()
    assert entries(f"user:{ann.pk}") == [
        ("account_created", "system"),
        ("identity_linked", "system"),
        ("groups_changed", "system"),
        ("logged_in", "ann"),
    ]
    entry = Event.objects.get(trigger="logged_in").as_dict()
    assert (entry["metadata"], entry["context"]["address"]) == ({"issuer": provider.issuer}, ADDRESS)


def test_an_account_is_never_found_by_its_name_or_address(provider: openid.Provider, visitor: Client) -> None:
    """The attack: somebody takes the name or e-mail address of an administrator at the provider."""
    User.objects.create_superuser("ann", "ann@example.com", PASSWORD)
    provider.person |= {"email": "ann@example.com", "email_verified": True}
    sign_in(visitor)
    assert visitor.get(PAGE).context["user"].username == "ann-2"
    provider.person["preferred_username"] = "renamed"
    sign_in(Client())
    assert set(User.objects.values_list("username", flat=True)) == {"ann", "ann-2"}


def test_the_link_cannot_be_changed_and_a_deleted_account_stays_deleted(
    provider: openid.Provider, visitor: Client
) -> None:
    from django.db import DatabaseError, transaction

    sign_in(visitor)
    for change in ({"user_id": 7}, {"subject": "p-2"}):
        with pytest.raises(DatabaseError), transaction.atomic():
            ExternalIdentity.objects.update(**change)
    User.objects.get(username="ann").delete()
    assert sign_in(Client()).status_code == 403
    assert not User.objects.filter(username="ann").exists()


def test_groups_follow_the_provider_and_those_given_here_stay(provider: openid.Provider, visitor: Client) -> None:
    provider.hidden.add("groups")  # they come from the user info
    sign_in(visitor)
    User.objects.get(username="ann").groups.add(Group.objects.create(name="night shift"))
    provider.person["groups"] = ["on-call", "unknown here"]
    sign_in(visitor)
    assert groups() == {"supervisor", "night shift"}


def test_a_lost_group_deactivates_the_account_until_it_is_back(provider: openid.Provider, visitor: Client) -> None:
    sign_in(visitor)
    ann = User.objects.get(username="ann")
    provider.person["groups"] = ["others"]
    answer = sign_in(Client())
    assert answer.status_code == 403
    assert single_sign_on.Refusal.NO_GROUP in answer.content.decode()
    assert not is_in(visitor)
    assert [trigger for trigger, _ in entries(f"user:{ann.pk}")][-3:] == [
        "account_changed",
        "access_lost",
        "sign_in_refused",
    ]
    provider.person["groups"] = ["engineers"]
    sign_in(visitor)
    assert is_in(visitor)
    assert ("access_regained", "system") in entries(f"user:{ann.pk}")


def test_an_account_that_an_administrator_deactivated_stays_so(provider: openid.Provider, visitor: Client) -> None:
    sign_in(visitor)
    ann = User.objects.get(username="ann")
    ann.is_active = False
    ann.save()
    assert sign_in(visitor).status_code == 403
    ann.refresh_from_db()
    assert not ann.is_active


def test_a_person_without_a_group_gets_no_account(provider: openid.Provider, visitor: Client, settings: Any) -> None:
    settings.STATECORE_SIGN_IN_REQUIRED_GROUP = "staff"
    assert sign_in(visitor).status_code == 403
    assert not User.objects.exists()
    assert entries("unknown") == [("sign_in_refused", "system")]


def test_an_administrator_links_an_account_that_exists(provider: openid.Provider, visitor: Client) -> None:
    ada = User.objects.create_user("ada", password=PASSWORD)
    call_command("identity", "ada", "--link", "p-1", stdout=StringIO())
    sign_in(visitor)
    assert visitor.get(PAGE).context["user"] == ada
    assert ("identity_linked", "system") in entries(f"user:{ada.pk}")
    with pytest.raises(CommandError, match="links are for good"):
        call_command("identity", "ada", "--link", "p-2")


# Sessions


def test_a_session_is_renewed_by_pages_and_otherwise_ends(
    provider: openid.Provider, visitor: Client, settings: Any
) -> None:
    """Somebody who was removed at the provider keeps a session for STATECORE_SIGN_IN_MINUTES at most."""
    lifetime = timedelta(minutes=settings.STATECORE_SIGN_IN_MINUTES)
    sign_in(visitor)
    with time_machine.travel(now() + lifetime * 0.6, tick=False):
        assert visitor.get("/incidents/")["Location"] == "/login/sso/?next=%2Fincidents%2F"
        assert visitor.get("/api/v1/machines/").status_code == 200
        sign_in(visitor)
        assert is_in(visitor)
    with time_machine.travel(now() + lifetime * 1.7, tick=False):
        assert visitor.get("/api/v1/machines/").status_code == 401
        assert visitor.post("/preferences/").headers["Location"].startswith("/login/")
        assert visitor.get("/incidents/")["Location"].startswith("/login/sso/")
        sign_in(visitor)
        assert is_in(visitor)
    assert Event.objects.filter(trigger="logged_in").count() == 1


def test_a_session_ends_with_the_provider_that_confirmed_it(
    provider: openid.Provider, visitor: Client, settings: Any
) -> None:
    sign_in(visitor)
    settings.STATECORE_OIDC_ISSUER = ""
    assert visitor.get("/api/v1/machines/").status_code == 401


def test_a_provider_that_fails_stops_no_session_and_no_password(
    provider: openid.Provider, visitor: Client, settings: Any
) -> None:
    lifetime = timedelta(minutes=settings.STATECORE_SIGN_IN_MINUTES)
    sign_in(visitor)
    cache.clear()
    provider.failing = {".well-known/openid-configuration"}
    with time_machine.travel(now() + lifetime * 0.6, tick=False):
        assert visitor.get("/incidents/", follow=True).status_code == 200
    stranger = Client()
    answer = stranger.get("/login/sso/")
    assert answer.status_code == 503
    assert "cannot be reached" in answer.content.decode()
    User.objects.create_user("bob", password=PASSWORD)
    stranger.post("/login/", {"username": "bob", "password": PASSWORD})
    assert is_in(stranger)


def test_an_attempt_leaves_nothing_in_the_database(provider: openid.Provider, visitor: Client) -> None:
    go_to_provider(visitor)
    assert not Session.objects.exists()


# Answers that prove nothing


def test_a_token_that_is_not_for_this_attempt_is_refused(provider: openid.Provider, visitor: Client) -> None:
    at = int(time.time())
    for claims in (
        {"nonce": "of another attempt"},
        {"iss": "https://elsewhere.example"},
        {"aud": "another-client"},
        {"aud": [openid.CLIENT, "another-client"]},
        {"azp": "another-client"},
        {"exp": at - 3_600},
        {"iat": at + 3_600},
        {"sub": ""},
        {"sub": None},
    ):
        provider.claims = claims
        assert sign_in(visitor).status_code == 503, claims
    assert not User.objects.exists()


def test_a_token_signed_by_another_key_is_refused_and_a_new_key_is_accepted(
    provider: openid.Provider, visitor: Client
) -> None:
    provider.signing_key = RSAKey.generate_key(2048)
    assert sign_in(visitor).status_code == 503
    provider.signing_key = None
    provider.rotate_key()
    sign_in(visitor)
    assert is_in(visitor)


def test_an_answer_belongs_to_the_browser_that_asked_and_works_once(provider: openid.Provider, visitor: Client) -> None:
    """The attack: somebody sends a link with their own code, so that another person works in their account."""
    answer = go_to_provider(visitor)
    assert Client().get(answer).status_code == 400
    assert visitor.get(answer.replace("state=", "state=x")).status_code == 400
    assert visitor.get(answer).status_code == 302
    assert visitor.get(answer).status_code == 400


def test_a_refusal_by_the_provider_is_shown(provider: openid.Provider, visitor: Client) -> None:
    provider.person = openid.REFUSED
    answer = sign_in(visitor)
    assert answer.status_code == 403
    assert "access_denied" in answer.content.decode()


def test_a_provider_that_names_itself_differently_is_refused(
    provider: openid.Provider, visitor: Client, settings: Any
) -> None:
    settings.STATECORE_OIDC_ISSUER = provider.issuer + "/"
    assert visitor.get("/login/sso/").status_code == 503


# Break glass


def test_where_it_is_required_only_break_glass_accounts_use_passwords(
    provider: openid.Provider, visitor: Client, settings: Any
) -> None:
    bob, eve = (User.objects.create_superuser(name, password=PASSWORD) for name in ("bob", "eve"))
    visitor.post("/login/", {"username": "bob", "password": PASSWORD})
    assert is_in(visitor)

    settings.STATECORE_SIGN_IN_ONLY, settings.STATECORE_BREAK_GLASS_ACCOUNTS = True, frozenset({"eve"})

    assert not is_in(visitor)  # sessions that began with a password end, too
    visitor.post("/login/", {"username": "bob", "password": PASSWORD})
    assert not is_in(visitor)
    visitor.post("/login/", {"username": "eve", "password": PASSWORD})
    assert "Break-glass login" in visitor.get("/tokens/").content.decode()
    assert entries(f"user:{eve.pk}")[-1] == ("break_glass_used", "eve")
    assert Event.objects.get(trigger="break_glass_used").severity == "error"
    (alert,) = alert_rules.find_break_glass_logins(now())
    assert alert.key == f"user:{eve.pk}"
    assert not list(alert_rules.find_break_glass_logins(now() + timedelta(hours=2)))
    sign_in(visitor)
    assert "Break-glass login" not in visitor.get("/tokens/").content.decode()
    assert ("break_glass_used", "bob") not in entries(f"user:{bob.pk}")
