"""The desk of administrators: people, roles and service accounts, each change after a preview and a confirmation."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from statecore.accounts import people, service_accounts
from statecore.dashboard import displays, second_factor
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM, Actor, Channel
from statecore.kernel.clock import now
from statecore.kernel.refusals import PermissionDenied
from statecore.records import Token, one_time_password
from statecore.records import token as tokens
from tests.api.callers import member

pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.django_db]

PASSWORD, NEW = "correct horse battery", "another long password"
CONFIRMED = {"confirmation": PASSWORD}


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss", password=PASSWORD)


@pytest.fixture
def desk(boss: User) -> Client:
    return browser(boss)


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user, backend=second_factor.BACKEND)
    return client


def manager(name: str = "mallory", *groups: str) -> User:
    """An account that manages accounts and is no superuser."""
    user = User.objects.create_user(name, password=PASSWORD)
    user.user_permissions.add(Permission.objects.get(codename="manage_accounts"))
    user.groups.set(Group.objects.filter(name__in=groups))
    return user


def act(client: Client, user: User, action: str, **form: Any) -> Any:
    return client.post(reverse("console:user_action", args=[user.pk, action]), {**CONFIRMED, **form})


def preview(client: Client, user: User, action: str, **query: Any) -> str:
    page = client.get(reverse("console:user_action", args=[user.pk, action]), query).content.decode()
    return page[page.index('id="consequences"') :]


def log_in(name: str, password: str) -> Client:
    client = Client()
    client.post("/login/", {"username": name, "password": password})
    return client


def is_in(client: Client) -> bool:
    return bool(client.get(reverse("console:tokens")).status_code == 200)


def read_once(page: Any, id_: str) -> str:
    found = re.search(rf'id="{id_}">([^<]+)<', page.content.decode())
    assert found is not None, page.content.decode()
    return found[1]


def test_a_new_account_replaces_its_one_time_password_before_anything_else(desk: Client) -> None:
    form = {"username": "carol", "role": ["operator"]}
    refused = desk.post("/accounts/new/", {**form, "confirmation": "guess"})
    assert (refused.status_code, User.objects.filter(username="carol").exists()) == (422, False)
    for name, error in (("system", "reserved for the system"), ("boss", "exists already"), ("service/x", "service")):
        assert error in desk.post("/accounts/new/", {**form, **CONFIRMED, "username": name}).content.decode()
    password = read_once(desk.post("/accounts/new/", {**form, **CONFIRMED}), "password-text")

    carol = log_in("carol", password)
    assert carol.get("/machines/tasks/")["Location"] == "/account/"
    assert carol.get("/api/v1/tasks/").status_code == 403
    assert carol.post("/account/", {"current": password, "new": password, "repeated": password}).status_code == 422
    assert carol.post("/account/", {"current": password, "new": NEW, "repeated": NEW}).status_code == 302
    assert carol.get("/machines/tasks/").status_code == 200
    assert is_in(log_in("carol", NEW))
    assert password not in str([entry.body for entry in Event.objects.filter(entity_type="account")])


def test_a_one_time_password_that_was_not_replaced_is_refused(desk: Client) -> None:
    bob = member("bob", "operator")
    before = browser(bob)
    password = read_once(act(desk, bob, "password"), "password-text")
    assert not is_in(before)
    with time_machine.travel(now() + one_time_password.LIFETIME + timedelta(seconds=1)):
        assert log_in("bob", password).get("/account/").status_code == 302
        bob.refresh_from_db()
        assert not bob.has_usable_password()


def test_deactivating_shows_what_the_account_holds_and_counts_at_the_next_call(desk: Client) -> None:
    bob = member("bob", "operator")
    here, (_token, text) = browser(bob), tokens.make("builder", bob, "agent")
    assert is_in(here)
    service_accounts.create("ci", owner="bob", purpose="builds", roles=["operator"], actor=THE_SYSTEM)
    display, _secret = displays.request_pairing("198.51.100.7")
    displays.pair(display.code, "hall", "/wall/", "bob")
    shown = preview(desk, bob, "deactivate")
    for sentence in ("1 open session ends", "1 token is refused", "1 wall display that", "no new ones: ci"):
        assert sentence in shown
    assert act(desk, bob, "deactivate", confirmation="guess").status_code == 422
    assert is_in(here)
    assert act(desk, bob, "deactivate").status_code == 302
    assert not is_in(here)
    assert tokens.find(text) is None
    assert not is_in(browser(bob))
    assert act(desk, bob, "activate").status_code == 302
    assert tokens.find(text) is not None
    assert not is_in(here)  # its session has ended for good
    recorded = Event.objects.filter(entity_id=f"user:{bob.pk}").order_by("sequence")
    changed = [entry.as_dict() for entry in recorded if entry.trigger == "account_changed"]
    assert [each["metadata"] for each in changed] == [{"is_active": "True → False"}, {"is_active": "False → True"}]
    assert {(each["actor"], each["channel"]) for each in changed} == {("boss", "console")}


def test_no_administrator_raises_its_own_rights(boss: User, desk: Client) -> None:
    """The attack: an account that may manage accounts becomes a superuser, or takes one over."""
    mallory, bob = manager("mallory", "viewer"), member("bob", "operator")
    evil = browser(mallory)
    supervisor = Group.objects.get(name="supervisor")
    for target in (mallory, boss, bob):  # itself, and those with more rights
        for action in ("roles", "password", "second-factor", "deactivate", "sessions"):
            reply = act(evil, target, action, role="supervisor", superuser="1")
            assert reply.status_code == 422, (target, action)
    weak = User.objects.create_user("weak")
    assert act(evil, weak, "roles", role="supervisor").status_code == 422
    assert act(evil, weak, "roles", superuser="1").status_code == 302  # not offered, so it is not read
    wanted = {**CONFIRMED, "permission": list(Permission.objects.values_list("pk", flat=True))}
    assert evil.post(f"/accounts/roles/{supervisor.pk}/change/", wanted).status_code == 422
    viewer = Group.objects.get(name="viewer")
    assert evil.post(f"/accounts/roles/{viewer.pk}/change/", wanted).status_code == 422
    body = {**CONFIRMED, "name": "up", "owner": "mallory", "purpose": "x", "role": ["supervisor"]}
    assert evil.post("/accounts/new-service/", body).status_code == 422
    assert User.objects.filter(is_superuser=True).get() == boss
    assert not User.objects.filter(username__in=("weak", "mallory"), groups=supervisor).exists()
    assert act(evil, weak, "roles", role="viewer").status_code == 302


def test_the_last_superuser_and_the_own_account_stay(boss: User, desk: Client) -> None:
    for action in ("deactivate", "roles", "password"):
        assert act(desk, boss, action).status_code == 422
    other = User.objects.create_superuser("other", password=PASSWORD)
    assert act(desk, other, "roles", role="viewer").status_code == 302
    other.refresh_from_db()
    assert (other.is_superuser, other.is_staff) == (False, False)
    for change in (people.deactivate, lambda pk, actor: people.set_roles(pk, [], is_superuser=False, actor=actor)):
        with pytest.raises(PermissionDenied):
            change(boss.pk, actor=THE_SYSTEM)
    boss.refresh_from_db()
    assert (boss.is_superuser, boss.is_active) == (True, True)


def test_a_role_is_described_in_plain_words_and_its_change_counts_at_the_next_call(desk: Client) -> None:
    bob, night = member("bob", "viewer"), "night shift"
    desk.post("/accounts/new-role/", {**CONFIRMED, "name": night})
    role = Group.objects.get(name=night)
    _token, text = tokens.make("reader", bob, "read")
    bob.groups.set([role])
    page = desk.get(f"/accounts/roles/{role.pk}/").content.decode()
    assert "bob" in page
    assert 'aria-label="force Tasks"' in page
    permission = Permission.objects.get(codename="view_task")
    chosen = {"permission": [permission.pk]}
    shown = desk.post(f"/accounts/roles/{role.pk}/change/", {**chosen, "preview": "1"}).content.decode()
    assert ("Gains Tasks: see." in shown, "Accounts with this role: bob." in shown) == (True, True)
    assert not role.permissions.exists()
    found = tokens.find(text, "statecore.view_task")
    assert found is not None
    assert not found.owner_holds("statecore.view_task")
    assert desk.post(f"/accounts/roles/{role.pk}/change/", {**chosen, **CONFIRMED}).status_code == 302
    found = tokens.find(text, "statecore.view_task")
    assert found is not None
    assert found.owner_holds("statecore.view_task")
    assert "See 1 machine" in desk.get("/accounts/roles/").content.decode()
    assert desk.post(f"/accounts/roles/{role.pk}/delete/", CONFIRMED).status_code == 422  # bob has it
    bob.groups.clear()
    assert desk.post(f"/accounts/roles/{role.pk}/delete/", CONFIRMED).status_code == 302
    viewer = Group.objects.get(name="viewer")
    assert desk.post(f"/accounts/roles/{viewer.pk}/delete/", CONFIRMED).status_code == 404
    triggers = list(Event.objects.filter(entity_id=f"group:{role.pk}").order_by("sequence").values_list("trigger"))
    assert [each for (each,) in triggers] == ["account_created", "permissions_changed", "account_deleted"]


def test_roles_sessions_and_second_factor_of_an_account_are_changed(desk: Client) -> None:
    bob = member("bob", "viewer")
    here = browser(bob)
    is_in(here)
    second_factor.start_enrolment(bob)
    bob.totpdevice_set.update(confirmed=True)
    assert "Gains the role operator." in preview(desk, bob, "roles", role=["operator"])
    assert act(desk, bob, "roles", role=["operator"]).status_code == 302
    assert [group.name for group in bob.groups.all()] == ["operator"]
    assert act(desk, bob, "second-factor").status_code == 302
    assert second_factor.get_device(bob) is None
    assert act(desk, bob, "sessions").status_code == 302
    assert not is_in(here)


def test_the_list_is_searched_and_leaves_out_programs_and_displays(boss: User, desk: Client) -> None:
    member("ada", "supervisor")
    bob = member("bob", "viewer")
    User.objects.filter(pk=bob.pk).update(is_active=False, last_login=now() - timedelta(days=40))
    service_accounts.create("ci", owner="ada", purpose="builds", actor=THE_SYSTEM)
    display, _secret = displays.request_pairing("198.51.100.7")
    displays.pair(display.code, "hall", "/wall/", "boss")

    def names(**query: str) -> list[str]:
        return re.findall(r'/accounts/\d+/">([^<]+)<', desk.get("/accounts/", query).content.decode())

    assert names() == ["ada", "bob", "boss"]
    assert names(role="supervisor") == ["ada"]
    assert names(role="superuser") == ["boss"]
    assert names(status="deactivated") == ["bob"]
    assert names(seen="30") == ["bob"]
    assert names(seen="never") == ["ada"]
    assert names(factor="on") == []
    assert names(text="A") == ["ada"]
    assert names(text="nobody") == []
    with CaptureQueriesContext(connection) as few:
        names()
    for number in range(20):
        browser(member(f"more-{number:02}"))
    with CaptureQueriesContext(connection) as many:
        assert len(names()) == 23
    assert len(many) <= len(few)


def test_an_owner_rotates_tokens_in_the_console_and_each_is_shown_once(desk: Client) -> None:
    ada = User.objects.create_user("ada", password=PASSWORD)
    ada.groups.add(Group.objects.get(name="operator"))
    form = {**CONFIRMED, "name": "ci", "owner": "nobody", "purpose": "builds", "role": ["operator"]}
    assert "no active user" in desk.post("/accounts/new-service/", form).content.decode()
    assert desk.post("/accounts/new-service/", {**form, "owner": "ada"}).status_code == 302
    owner, other = browser(ada), browser(member("bob", "supervisor"))
    place = "/accounts/services/ci/"
    assert other.get(place).status_code == 404
    assert other.post(f"{place}issue/", {**CONFIRMED, "scope": "agent"}).status_code == 404
    old = read_once(owner.post(f"{place}issue/", {**CONFIRMED, "scope": "agent", "days": "30"}), "token-text")
    prefix = Token.objects.get(name="service/ci/1").prefix
    assert owner.post(f"{place}{prefix}/rotate/", {"confirmation": "guess"}).status_code == 422
    new = read_once(owner.post(f"{place}{prefix}/rotate/", {**CONFIRMED, "overlap": "1"}), "token-text")
    assert tokens.find(old)
    assert tokens.find(new)
    with time_machine.travel(now() + timedelta(hours=2)):
        assert tokens.find(old) is None
        assert tokens.find(new)
    assert new not in owner.get(place).content.decode()
    assert owner.post(f"{place}change/", {**CONFIRMED, "owner": "ada", "purpose": "y"}).status_code == 422
    assert owner.post(f"{place}{Token.objects.get(name='service/ci/2').prefix}/revoke/", CONFIRMED).status_code == 302
    assert tokens.find(new) is None


def test_a_read_only_console_changes_no_account(settings: Any, desk: Client) -> None:
    settings.STATECORE_READ_ONLY = True
    bob = member("bob")
    assert act(desk, bob, "deactivate").status_code == 403
    assert desk.post("/accounts/new/", {**CONFIRMED, "username": "carol"}).status_code == 403
    assert "Deactivate" not in desk.get(f"/accounts/{bob.pk}/").content.decode()


def test_a_service_account_has_no_session_whatever_logs_it_in(boss: User) -> None:
    service_accounts.create("ci", owner="boss", purpose="builds", roles=["operator"], actor=THE_SYSTEM)
    service = User.objects.get(username="service/ci")
    assert not is_in(browser(service))
    assert not Actor.operator(service, Channel.CONSOLE).has_permission("statecore.manage_accounts")


def test_the_admin_has_no_accounts(desk: Client) -> None:
    for path in ("user/", "group/", "user/add/"):
        assert desk.get(f"/admin/auth/{path}").status_code == 404
