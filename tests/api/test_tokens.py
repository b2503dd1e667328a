"""Tokens: shown once at creation and stored as a hash; and the command that creates them."""

import json
from datetime import timedelta
from io import StringIO
from itertools import count
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from statecore.journal import Event, IdempotencyRecord
from statecore.kernel.actors import Channel, Kind
from statecore.kernel.refusals import DuplicateId, Invalid
from statecore.records import Token
from statecore.records import token as tokens
from statecore.records.token import Scope
from tests.api.callers import Caller, expect_ok, expect_refusal, member
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return member("ada", "supervisor")


def run_token_command(*words: str) -> str:
    out = StringIO()
    call_command("token", *words, stdout=out)
    return out.getvalue().strip()


def test_the_command_prints_a_token_that_works_and_keeps_only_its_hash(user: User) -> None:
    text = run_token_command("create", "builder", "--user", "ada", "--scope", "agent")
    token = tokens.find(text)
    assert token is not None
    assert text.startswith(token.prefix)
    kept = Token.objects.values().get()
    assert text not in str(kept)
    assert text[len(token.prefix) + 1 :] not in str(kept)


def test_the_list_shows_everything_but_the_text(user: User) -> None:
    text = run_token_command("create", "builder", "--user", "ada", "--scope", "read", "--expires", "2")
    line = json.loads(run_token_command("list", "--json"))
    assert line["name"] == "builder"
    assert line["scope"] == "read"
    assert line["expires_at"] is not None
    assert line["last_used_at"] is None
    assert text not in run_token_command("list")


def test_a_revoked_token_is_refused_and_cannot_be_revoked_again(user: User) -> None:
    text = run_token_command("create", "builder", "--user", "ada", "--scope", "agent")
    assert "is revoked" in run_token_command("revoke", "builder")
    assert tokens.find(text) is None
    assert "was revoked already" in run_token_command("revoke", text[:12])


def test_an_expired_token_is_useless(user: User) -> None:
    with time_machine.travel("2026-01-01", tick=False) as clock:
        _token, text = tokens.make("builder", user, "read", expires_in=timedelta(days=1))
        clock.shift(86_399)
        assert tokens.find(text) is not None
        clock.shift(1)
        assert tokens.find(text) is None


def test_the_token_of_an_inactive_user_is_useless(user: User) -> None:
    _token, text = tokens.make("builder", user, "override")
    User.objects.update(is_active=False)
    assert tokens.find(text) is None


def test_its_use_is_written_at_most_once_a_minute(user: User, django_assert_num_queries) -> None:
    with time_machine.travel("2026-01-01", tick=False) as clock:
        _token, text = tokens.make("builder", user, "read")
        with django_assert_num_queries(2):
            tokens.find(text, "statecore.view_task")
        clock.shift(59)
        with django_assert_num_queries(1):
            tokens.find(text)
        clock.shift(1)
        with django_assert_num_queries(2):
            tokens.find(text)


def test_a_name_is_taken_once(user: User) -> None:
    tokens.make("builder", user, "read")
    with pytest.raises(DuplicateId):
        tokens.make("builder", user, "agent")


@pytest.mark.parametrize(
    ("name", "scope", "days", "wrong"),
    [("", "read", 1, "name"), ('a"b', "read", 1, "name"), ("a", "root", 1, "scope"), ("a", "read", 0, "expires")],
)
def test_invalid_arguments_are_refused(user: User, name: str, scope: str, days: float, wrong: str) -> None:
    with pytest.raises(Invalid) as refused:
        tokens.make(name, user, scope, expires_in=timedelta(days=days))
    assert list(refused.value.facts["errors"]) == [wrong]


@pytest.mark.parametrize("words", [("--user", "nobody"), ("--user", "ada", "--expires", "1e300")])
def test_the_command_explains_the_error(user: User, words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        run_token_command("create", "builder", "--scope", "read", *words)


@pytest.mark.parametrize(
    ("scope", "kind", "name"),
    [("read", Kind.OPERATOR, "ada"), ("agent", Kind.AGENT, "builder"), ("operate", Kind.OPERATOR, "ada")],
)
def test_a_token_acts_as_an_agent_or_as_its_user(user: User, scope: str, kind: Kind, name: str) -> None:
    actor = tokens.make("builder", user, scope)[0].actor()
    assert (actor.kind, actor.name, actor.channel) == (kind, name, Channel.REST)


@pytest.mark.parametrize(
    ("scope", "operates", "overrides"),
    [("read", False, False), ("agent", False, False), ("operate", True, False), ("override", True, True)],
)
def test_a_token_never_allows_more_than_its_scope(scope: str, operates: bool, overrides: bool) -> None:
    boss = User.objects.create_superuser("boss")
    token = tokens.make("t", boss, scope)[0]
    assert token.has_permission("statecore.operate_task") is operates
    assert token.has_permission("statecore.override_task") is overrides


def test_a_token_never_allows_more_than_its_user(user: User) -> None:
    token, text = tokens.make("t", user, "override")
    assert token.has_permission("statecore.override_task")
    user.groups.clear()
    found = tokens.find(text, "statecore.override_task")
    assert found is not None
    assert not found.has_permission("statecore.override_task")


@pytest.mark.parametrize(
    ("group", "allowed"),
    [
        ("viewer", ["read"]),
        ("operator", ["read", "agent", "operate", "integrate"]),
        ("supervisor", list(Scope.values)),
        (None, []),
    ],
)
def test_a_token_is_made_for_no_more_than_its_user_may_do(group: str | None, allowed: list[str]) -> None:
    bob = member("bob", group) if group else User.objects.create_user("bob")
    assert tokens.scopes_of(bob) == allowed
    for scope in Scope.values:
        if scope in allowed:
            run_token_command("create", scope, "--user", "bob", "--scope", scope)
        else:
            with pytest.raises(CommandError, match="may not hold"):
                run_token_command("create", scope, "--user", "bob", "--scope", scope)
    assert Token.objects.count() == len(allowed)


PERMISSIONS = ("statecore.view_task", "statecore.operate_task", "statecore.override_run", "statecore.view_event", "x.y")


@pytest.mark.parametrize("how", ["nothing", "group", "own", "superuser"])
def test_the_rights_of_the_owner_equal_djangos(how: str) -> None:
    bob = User.objects.create_superuser("bob")
    _token, text = tokens.make("t", bob, "override")
    User.objects.update(is_superuser=how == "superuser")
    if how == "group":
        bob.groups.add(Group.objects.get(name="operator"))
    if how == "own":
        bob.user_permissions.add(Permission.objects.get(codename="override_run"))
    for permission in PERMISSIONS:
        found = tokens.find(text, permission)
        assert found is not None
        assert found.owner_holds(permission) is User.objects.get().has_perm(permission)


def test_a_claim_with_reports_reads_all_its_rights_with_the_token_and_follows_their_changes(user: User) -> None:
    world.queued_task()
    caller = Caller("agent", user=user)
    expect_ok(caller.post("workers/", {"id": "w1"}), 201)
    (task,) = expect_ok(caller.post("workers/w1/claim/"))["tasks"]
    report = {"task": task["id"], "attempt": task["attempt"], "trigger": "execution_completed", "exit_code": 0}

    with CaptureQueriesContext(connection) as queries:
        expect_ok(caller.post("workers/w1/claim/", {"reports": [report]}))
    assert sum("auth_permission" in query["sql"] for query in queries) == 1

    Group.objects.get(name="supervisor").permissions.remove(Permission.objects.get(codename="operate_task"))
    refused = expect_refusal(caller.post("workers/w1/claim/", {"reports": [report]}), 403, "permission_denied")
    assert refused["required"] == "statecore.operate_task"


def test_a_repeated_claim_with_a_key_checks_its_token_with_the_key_and_follows_its_changes(user: User) -> None:
    caller, numbers = Caller("agent", user=user), count()
    expect_ok(caller.post("workers/", {"id": "w1"}), 201)
    expect_ok(caller.post("workers/w1/claim/"))
    report = {"task": "none", "attempt": 1, "trigger": "execution_completed", "exit_code": 0}

    def claim(*reports: dict[str, Any]) -> Any:
        return caller.post("workers/w1/claim/", {"reports": reports}, **{"Idempotency-Key": f"key-{next(numbers)}"})

    with CaptureQueriesContext(connection) as queries:
        expect_ok(claim(report))
    (read,) = [query["sql"] for query in queries if Token._meta.db_table in query["sql"]]
    assert IdempotencyRecord._meta.db_table in read

    Group.objects.get(name="supervisor").permissions.remove(Permission.objects.get(codename="operate_task"))
    assert expect_refusal(claim(report), 403, "permission_denied")["required"] == "statecore.operate_task"
    expect_ok(claim())
    Group.objects.get(name="supervisor").permissions.remove(Permission.objects.get(codename="operate_worker"))
    assert expect_refusal(claim(), 403, "permission_denied")["required"] == "statecore.operate_worker"
    expect_refusal(caller.post("workers/w1/claim/", {"nonsense": 1}), 403, "permission_denied")
    tokens.revoke(caller.token)
    expect_refusal(claim(), 401, "not_authenticated")


def test_creating_and_revoking_a_token_is_recorded(user: User) -> None:
    text = run_token_command("create", "builder", "--user", "ada", "--scope", "agent")
    run_token_command("revoke", "builder")
    run_token_command("revoke", "builder")
    entries = [event.as_dict() for event in Event.objects.filter(trigger__startswith="token_").order_by("sequence")]
    assert [(entry["trigger"], entry["actor"], entry["channel"]) for entry in entries] == [
        ("token_created", "manage.py token", "cli"),
        ("token_revoked", "manage.py token", "cli"),
    ]
    token = tokens.Token.objects.get()
    assert entries[0]["metadata"] == {"token": token.prefix, "name": "builder", "scope": "agent", "expires_at": None}
    assert entries[0]["context"]["account"] == "ada"
    assert text not in str(entries)
