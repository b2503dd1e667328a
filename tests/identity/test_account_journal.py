"""Logins and changes of accounts are entries of the journal, written with the change and covered by the tree."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test import Client
from django_otp.oath import totp
from django_otp.plugins.otp_totp.models import TOTPDevice

from statecore.accounts.caller import get_process_actor
from statecore.dashboard import displays, second_factor
from statecore.journal import Event, Position, digest
from statecore.journal.tree import tree_size
from statecore.kernel.actors import THE_SYSTEM
from statecore.operations import integrity
from statecore.records import token as tokens
from statecore.storage import triggers
from tests.api.callers import Caller, expect_ok, expect_refusal, member
from tests.support import world
from tests.support.sequencer import catch_up, sign

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
ADDRESS = "203.0.113.9"


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_superuser("ada", password=PASSWORD)


@pytest.fixture
def bob(db: None) -> User:
    return User.objects.create_user("bob", password=PASSWORD)


@pytest.fixture
def admin(ada: User) -> Client:
    """A browser in which Ada has logged in."""
    client = Client(REMOTE_ADDR=ADDRESS)
    client.force_login(ada)
    return client


def entries(of: str = "") -> list[Event]:
    """Returns them by account in the order of its chain: ids of the same millisecond have none."""
    found = Event.objects.filter(entity_type="account").order_by("entity_id", "sequence")
    return list(found.filter(entity_id=of) if of else found)


def actions(user: User) -> list[str]:
    return [entry.trigger for entry in entries(f"user:{user.pk}")]


def last_entry(user: User) -> dict[str, Any]:
    return entries(f"user:{user.pk}")[-1].as_dict()


def log_in(client: Client, name: str, password: str) -> Any:
    return client.post("/login/", {"username": name, "password": password})


# Logins


def test_a_login_and_a_logout_name_the_account_and_the_address(bob: User) -> None:
    client = Client(REMOTE_ADDR=ADDRESS)
    log_in(client, "bob", PASSWORD)
    entry = last_entry(bob)
    assert (entry["trigger"], entry["actor"], entry["identity"]) == ("logged_in", "bob", f"user:{bob.pk}")
    assert entry["context"] == {"account": "bob", "address": ADDRESS}
    assert entry["channel"] == "console"
    client.post("/logout/")
    assert actions(bob)[-2:] == ["logged_in", "logged_out"]


def test_failed_logins_and_the_lockout_are_recorded_once(bob: User) -> None:
    client = Client(REMOTE_ADDR=ADDRESS)
    for _ in range(9):
        log_in(client, "bob", "wrong")
    assert actions(bob) == ["account_created", *["login_failed"] * 4, "locked_out"]
    entry = last_entry(bob)
    assert (entry["actor"], entry["identity"], entry["context"]["address"]) == ("anonymous", None, ADDRESS)
    assert entry["severity"] == "error"


def test_an_unknown_name_is_not_kept_because_it_may_be_a_password() -> None:
    log_in(Client(), "my secret password", "x")
    (entry,) = entries("unknown")
    assert entry.trigger == "login_failed"
    assert "secret" not in entry.body


# Users and rights


def test_a_change_in_the_console_names_the_administrator(admin: Client, ada: User, bob: User) -> None:
    form = {"role": "supervisor", "superuser": "1", "confirmation": PASSWORD}
    assert admin.post(f"/accounts/{bob.pk}/roles/", form).status_code == 302
    changed, groups = entries(f"user:{bob.pk}")[-2:]
    assert changed.as_dict()["metadata"] == {"is_staff": "False → True", "is_superuser": "False → True"}
    assert groups.as_dict()["metadata"] == {"added": ["supervisor"]}
    assert {(entry.actor, entry.channel) for entry in (changed, groups)} == {("ada", "console")}
    assert groups.as_dict()["context"]["address"] == ADDRESS


def test_permissions_and_groups_are_recorded_from_either_side(bob: User) -> None:
    permission = Permission.objects.get(codename="override_run")
    group = Group.objects.create(name="night shift")
    permission.user_set.add(bob)
    group.user_set.add(bob)
    group.permissions.add(permission)
    group.user_set.clear()
    bob.user_permissions.clear()
    assert [(entry.trigger, entry.as_dict()["metadata"]) for entry in entries(f"user:{bob.pk}")[1:]] == [
        ("permissions_changed", {"added": ["statecore.override_run"]}),
        ("groups_changed", {"added": ["night shift"]}),
        ("groups_changed", {"removed": ["night shift"]}),
        ("permissions_changed", {"removed": ["statecore.override_run"]}),
    ]
    (of_group,) = entries(f"group:{group.pk}")
    assert of_group.as_dict()["metadata"] == {"added": ["statecore.override_run"]}
    assert of_group.as_dict()["context"]["account"] == "night shift"


def test_a_password_and_a_deleted_account_are_recorded_without_the_hash(bob: User) -> None:
    bob.set_password("another long password")
    bob.save()
    identity, password = f"user:{bob.pk}", bob.password
    bob.delete()
    assert [entry.trigger for entry in entries(identity)] == [
        "account_created",
        "password_changed",
        "account_deleted",
    ]
    assert all(password not in entry.body for entry in entries())


def test_a_stronger_hash_of_the_same_password_is_not_a_changed_password(bob: User) -> None:
    with pytest.MonkeyPatch.context() as patch:
        from django.contrib.auth.hashers import Argon2PasswordHasher

        patch.setattr(Argon2PasswordHasher, "time_cost", 2)
        log_in(Client(), "bob", PASSWORD)
    assert actions(bob) == ["account_created", "password_rehashed", "logged_in"]


def test_saving_without_a_change_leaves_no_entry(bob: User) -> None:
    bob.save()
    bob.groups.add(*[])
    assert actions(bob) == ["account_created"]


@pytest.mark.django_db(transaction=True)
def test_a_change_without_its_entry_is_rolled_back() -> None:
    bob = User.objects.create_user("bob", password=PASSWORD)

    def fail(execute: Any, sql: str, *rest: Any) -> Any:
        if re.match(r'INSERT INTO "?statecore_event"?', sql):
            raise DatabaseError("the disk is full")
        return execute(sql, *rest)

    bob.is_superuser = True
    with connection.execute_wrapper(fail), pytest.raises(DatabaseError):
        bob.save()
    assert not User.objects.get(pk=bob.pk).is_superuser
    with connection.execute_wrapper(fail), pytest.raises(DatabaseError):
        User.objects.create_user("eve")
    assert not User.objects.filter(username="eve").exists()


def test_a_command_is_the_actor_of_its_changes() -> None:
    assert get_process_actor(["manage.py", "changepassword", "bob"]).name == "manage.py changepassword"
    assert get_process_actor(["/srv/manage.py", '"; drop']).name == "manage.py"
    assert get_process_actor(["celery", "worker"]) == THE_SYSTEM


# Second factors, tokens, displays, exports


def test_second_factors_are_recorded(bob: User) -> None:
    client = Client(REMOTE_ADDR=ADDRESS)
    client.force_login(bob)
    device = second_factor.start_enrolment(bob)
    code = f"{totp(device.bin_key):06d}"
    answer = client.post("/second-factor/", {"do": "enrol", "password": PASSWORD, "code": code})
    recovery_code = answer.context["codes"][0]
    answer = client.post("/second-factor/", {"do": "remove", "code": recovery_code})
    assert answer.status_code == 302
    assert actions(bob)[2:] == [
        "second_factor_enrolled",
        "recovery_codes_created",
        "recovery_code_used",
        "second_factor_removed",
    ]
    assert {entry.actor for entry in entries(f"user:{bob.pk}")[2:]} == {"bob"}
    assert all(recovery_code.replace("-", "") not in entry.body for entry in entries())


def test_a_second_factor_removed_by_command_is_recorded(bob: User) -> None:
    TOTPDevice.objects.create(user=bob, name="app", confirmed=True)
    assert actions(bob)[-1] == "second_factor_enrolled"
    call_command("second_factor", "bob", "--remove")
    assert actions(bob)[-1] == "second_factor_removed"


def test_tokens_are_recorded_with_their_owner(admin: Client, ada: User) -> None:
    admin.post("/tokens/", {"name": "builder", "scope": "agent", "days": "7"})
    token = tokens.Token.objects.get()
    admin.post(f"/tokens/{token.prefix}/revoke/")
    made, revoked = entries(f"user:{ada.pk}")[-2:]
    assert (made.trigger, revoked.trigger) == ("token_created", "token_revoked")
    facts = made.as_dict()["metadata"]
    assert (facts["token"], facts["name"], facts["scope"]) == (token.prefix, "builder", "agent")
    assert made.as_dict()["context"]["address"] == ADDRESS


def test_displays_are_recorded(admin: Client) -> None:
    display, _secret = displays.request_pairing(None)
    admin.post("/displays/", {"code": display.code, "name": "hall"})
    display.refresh_from_db()
    displays.unpair(display)
    assert display.user is not None
    assert actions(display.user) == [
        "account_created",
        "groups_changed",
        "display_paired",
        "account_changed",
        "display_unpaired",
    ]
    assert entries(f"user:{display.user.pk}")[2].actor == "ada"


def test_an_export_is_recorded_with_its_filters(admin: Client, ada: User) -> None:
    world.task()
    b"".join(admin.get("/audit/export/?actor=bob").streaming_content)
    entry = last_entry(ada)
    assert (entry["trigger"], entry["metadata"]) == ("exported", {"actor": "bob"})


# Reading


@pytest.mark.django_db(transaction=True)
def test_the_account_journal_needs_its_permission(ada: User) -> None:
    catch_up()
    expect_refusal(Caller("read", user=member("vic", "operator")).get("audit/accounts/"), 403, "permission_denied")
    assert expect_ok(Caller("read", user=member("sue", "supervisor")).get("audit/accounts/"))["results"]
    for group, status in (("operator", 403), ("supervisor", 200)):
        client = Client()
        client.force_login(member(f"{group}-1", group))
        assert client.get("/audit/accounts/").status_code == status


@pytest.mark.django_db(transaction=True)
def test_entries_are_filtered_over_rest(admin: Client, ada: User, bob: User) -> None:
    log_in(Client(), "bob", "wrong")
    catch_up()
    caller = Caller("read", user=ada)
    found = expect_ok(caller.get("audit/accounts/?account=bob&action=login_failed"))["results"]
    assert [each["event"]["entity_id"] for each in found] == [f"user:{bob.pk}"]
    by_id = expect_ok(caller.get(f"audit/accounts/?account=user:{bob.pk}"))["results"]
    assert [each["event"]["trigger"] for each in by_id] == ["login_failed", "account_created"]
    assert expect_ok(caller.get("audit/accounts/?actor=anonymous&page_size=1"))["results"] == found
    expect_refusal(caller.get("audit/accounts/?action=tea"), 400, "invalid")


@pytest.mark.django_db(transaction=True)
def test_entries_are_pages_newest_first(admin: Client, ada: User, bob: User) -> None:
    catch_up()
    caller = Caller("read", user=ada)
    first = expect_ok(caller.get("audit/accounts/?page_size=1"))
    second = expect_ok(caller.client.get(first["next"], headers={"Authorization": f"Bearer {caller.text}"}))
    assert first["results"][0]["position"] > second["results"][0]["position"]


@pytest.mark.django_db(transaction=True)
def test_the_console_shows_entries_and_filters_them(admin: Client, ada: User, bob: User) -> None:
    catch_up()
    page = admin.get("/audit/accounts/?account=bob").content.decode()
    assert "account created" in page.lower()
    assert f"user:{bob.pk}" in page
    assert f"user:{ada.pk}" not in page
    assert "No entries match" in admin.get("/audit/accounts/?action=locked_out").content.decode()


@pytest.mark.django_db(transaction=True)
def test_other_readers_of_the_journal_do_not_see_accounts(admin: Client, ada: User) -> None:
    task = world.task()
    catch_up()
    listed = expect_ok(Caller("read", user=ada).get("events/?page_size=500"))["results"]
    assert {each["event"]["entity_type"] for each in listed} >= {"task"}
    assert all(each["event"]["entity_type"] != "account" for each in listed)
    expect_refusal(Caller("read", user=ada).get("events/?entity_type=account"), 400, "invalid")
    page = admin.get("/audit/").content.decode()
    assert task.pk in page
    assert "logged_in" not in page
    assert admin.get(f"/receipts/{entries()[0].event_id}/").status_code == 404


def test_staff_without_the_permission_see_no_entries_in_the_admin(ada: User) -> None:
    staff = member("olga", "operator")
    User.objects.filter(pk=staff.pk).update(is_staff=True)
    for user, is_shown in ((staff, False), (ada, True)):
        client = Client()
        client.force_login(user)
        page = client.get("/admin/statecore/event/")
        assert page.status_code == 200
        assert ("account_created" in page.content.decode()) is is_shown


# Integrity


TRANSACTIONAL = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("home", "_signed")]


def transactional(test: Any) -> Any:
    for mark in TRANSACTIONAL:
        test = mark(test)
    return test


@pytest.fixture
def _signed(home: Any, ada: User, bob: User) -> None:
    bob.is_staff = True
    bob.save()
    bob.groups.add(Group.objects.get(name="supervisor"))
    sign()
    assert integrity.check_all() == []


@transactional
def test_entries_are_leaves_of_the_tree(ada: User, bob: User) -> None:
    positions = Position.objects.filter(entity_type="account").values_list("event_id", flat=True)
    assert set(positions) == {entry.event_id for entry in entries()}
    assert tree_size() == Event.objects.count()


@transactional
def test_an_edited_entry_is_found(bob: User) -> None:
    entry = entries(f"user:{bob.pk}")[-1]
    with triggers.disabled(connection):
        Event.objects.filter(pk=entry.pk).update(body=entry.body.replace("supervisor", "viewer"))
    assert {finding.entity_id for finding in integrity.check_all()} >= {entry.entity_id}
    assert integrity.check_recent()


@transactional
@pytest.mark.parametrize("place", [1, -1])
def test_a_deleted_entry_is_found(bob: User, place: int) -> None:
    entry = entries(f"user:{bob.pk}")[place]
    with triggers.disabled(connection):
        Event.objects.filter(pk=entry.pk)._raw_delete("default")
    assert entry.event_id in " ".join(map(str, integrity.check_all()))


@transactional
def test_a_history_rewritten_with_all_its_hashes_is_found(bob: User) -> None:
    """The attack: the grant disappears, and the chain is valid again."""
    *_, grant = entries(f"user:{bob.pk}")
    forged = grant.body.replace("supervisor", "viewer")
    with triggers.disabled(connection):
        Event.objects.filter(pk=grant.pk).update(body=forged, hash=digest(forged))
    assert {finding.check for finding in integrity.check_all()} >= {"tree"}


@transactional
def test_an_inserted_entry_is_found(bob: User) -> None:
    entry = entries(f"user:{bob.pk}")[-1]
    copy = Event(**{field.attname: getattr(entry, field.attname) for field in Event._meta.concrete_fields})
    copy.event_id, copy.sequence = "evt_forged", entry.sequence + 1
    with triggers.disabled(connection):
        copy.save(force_insert=True)
    assert "evt_forged" in " ".join(map(str, integrity.check_all()))


@pytest.mark.parametrize("statement", ["UPDATE statecore_event SET actor = 'eve'", "DELETE FROM statecore_event"])
def test_the_triggers_refuse_to_change_entries(bob: User, statement: str) -> None:
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert actions(bob) == ["account_created"]


@transactional
def test_an_account_entry_is_proved_like_any_event(ada: User, bob: User) -> None:
    event_id = entries(f"user:{bob.pk}")[0].event_id
    proof = expect_ok(Caller("read", user=ada).get(f"audit/proof/?event={event_id}"))
    assert '"account_created"' in proof["body"]
    stranger = Caller("read", user=member("olga", "operator"))
    expect_refusal(stranger.get(f"audit/proof/?event={event_id}"), 403, "permission_denied")
