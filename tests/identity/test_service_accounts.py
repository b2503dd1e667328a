"""Service accounts: accounts of programs with an owner, an end, roles, and tokens that are rotated without a gap."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client

from statecore.accounts import service_accounts
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM, Actor, Channel
from statecore.kernel.refusals import Invalid, SamePerson
from statecore.records import Approval, Token
from statecore.records import token as tokens
from statecore.transitions import approvals
from tests.api.callers import Caller, expect_ok, expect_refusal, member
from tests.support import world

pytestmark = pytest.mark.django_db

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLACE = "service-accounts/"


def read_tasks(text: str) -> int:
    return int(Client().get("/api/v1/tasks/", headers={"Authorization": f"Bearer {text}"}).status_code)


def create(name: str = "ci", owner: str = "ada", *, roles: tuple[str, ...] = ("supervisor",), **fields: Any) -> None:
    service_accounts.create(name, owner=owner, purpose="builds", roles=roles, actor=THE_SYSTEM, **fields)


def administrator(name: str) -> Caller:
    """Returns a caller who manages accounts and is no superuser."""
    user = member(name, "viewer")
    user.user_permissions.set(Permission.objects.filter(codename__in=("manage_accounts", "override_run")))
    return Caller("override", user=user)


@pytest.fixture
def ada() -> User:
    return member("ada", "supervisor")


def test_a_token_is_rotated_with_an_overlap_and_every_change_is_in_the_account_journal(ada: User) -> None:
    with time_machine.travel(START, tick=False) as clock:
        admin = Caller("override")
        body = {
            "id": "ci",
            "owner": "ada",
            "purpose": "builds",
            "roles": ["operator"],
            "expires_at": "2026-03-01T00:00:00Z",
        }
        made = expect_ok(admin.post(PLACE, body, **{"Idempotency-Key": "a"}), 201)
        assert expect_ok(admin.post(PLACE, body, **{"Idempotency-Key": "a"}), 201) == made
        expect_refusal(admin.post(PLACE, body), 409, "duplicate_id")

        old = expect_ok(admin.post(f"{PLACE}ci/tokens/", {"scope": "agent"}, **{"Idempotency-Key": "b"}), 201)
        again = expect_ok(admin.post(f"{PLACE}ci/tokens/", {"scope": "agent"}, **{"Idempotency-Key": "b"}), 201)
        assert (old["name"], again["secret"], again["prefix"]) == ("service/ci/1", None, old["prefix"])
        assert old["expires_at"] == "2026-03-01T00:00:00.000000Z"  # not later than the account
        assert read_tasks(old["secret"]) == 200

        new = expect_ok(admin.post(f"{PLACE}ci/tokens/{old['prefix']}/rotate/", {"overlap_hours": 2}), 201)
        assert (new["name"], new["scope"]) == ("service/ci/2", "agent")
        assert (read_tasks(old["secret"]), read_tasks(new["secret"])) == (200, 200)
        clock.shift(timedelta(hours=2))
        assert (read_tasks(old["secret"]), read_tasks(new["secret"])) == (401, 200)
        listed = expect_ok(admin.get(f"{PLACE}ci/"))
        assert [each["last_used_at"] is not None for each in listed["tokens"]] == [True, True]
        assert "secret" not in str(listed)

        expect_ok(admin.patch(f"{PLACE}ci/", {"expires_at": "2026-01-02T00:00:00Z"}))
        clock.move_to(datetime(2026, 1, 2, tzinfo=UTC))
        assert read_tasks(new["secret"]) == 401  # an earlier end of the account ends its tokens

    entries = Event.objects.filter(entity_id=f"user:{User.objects.get(username='service/ci').pk}").order_by("sequence")
    assert [entry.trigger for entry in entries] == [
        "account_created", "groups_changed", "service_account_created", "token_created", "token_created",
        "token_rotated", "service_account_changed",
    ]  # fmt: skip
    assert {entry.actor for entry in entries} == {admin.user.username}
    assert entries[5].as_dict()["metadata"]["replaced_by"] == new["prefix"]
    assert new["secret"] not in str([entry.as_dict() for entry in entries])


def test_a_disabled_account_and_a_revoked_token_are_refused_at_the_next_call(ada: User) -> None:
    admin = Caller("override")
    create()
    first, second = (expect_ok(admin.post(f"{PLACE}ci/tokens/", {"scope": "read"}), 201) for _ in range(2))
    assert expect_ok(admin.post(f"{PLACE}ci/tokens/{first['prefix']}/revoke/"))["revoked_at"]
    assert (read_tasks(first["secret"]), read_tasks(second["secret"])) == (401, 200)
    expect_refusal(admin.post(f"{PLACE}ci/tokens/{first['prefix']}/rotate/"), 400, "invalid")
    expect_ok(admin.post(f"{PLACE}ci/disable/"))
    expect_refusal(admin.post(f"{PLACE}ci/disable/"), 409, "already_in_state")
    assert read_tasks(second["secret"]) == 401
    expect_ok(admin.post(f"{PLACE}ci/enable/"))
    assert read_tasks(second["secret"]) == 200


def test_the_owner_rotates_tokens_and_others_do_not_see_the_account(ada: User) -> None:
    create(roles=("operator",))
    owner, other = Caller("override", user=ada), Caller("override", user=member("bob", "supervisor"))
    token = expect_ok(owner.post(f"{PLACE}ci/tokens/", {"scope": "agent"}), 201)
    expect_ok(owner.post(f"{PLACE}ci/tokens/{token['prefix']}/rotate/"), 201)
    assert [each["id"] for each in expect_ok(owner.get(PLACE))["results"]] == ["ci"]
    assert expect_ok(other.get(PLACE))["results"] == []
    expect_refusal(other.get(f"{PLACE}ci/"), 404, "not_found")
    for call in (f"tokens/{token['prefix']}/rotate/", f"tokens/{token['prefix']}/revoke/", "disable/"):
        expect_refusal(other.post(f"{PLACE}ci/{call}"), 403, "permission_denied")
    # Owners change no rights, and their smaller scopes issue no tokens.
    expect_refusal(owner.patch(f"{PLACE}ci/", {"roles": ["supervisor"]}), 403, "permission_denied")
    expect_refusal(Caller("operate", user=ada).post(f"{PLACE}ci/tokens/", {"scope": "read"}), 403, "permission_denied")
    expect_refusal(owner.post(f"{PLACE}ci/tokens/", {"scope": "override"}), 403, "permission_denied")


def test_an_account_whose_owner_is_deactivated_works_on_and_gets_no_new_tokens(ada: User) -> None:
    create()
    token, text = service_accounts.issue_token("ci", "agent", actor=THE_SYSTEM)
    ada.is_active = False
    ada.save()
    assert read_tasks(text) == 200
    for call in (
        lambda: service_accounts.issue_token("ci", "agent", actor=THE_SYSTEM),
        lambda: service_accounts.rotate_token("ci", token.prefix, actor=THE_SYSTEM),
    ):
        with pytest.raises(Invalid, match="no active owner"):
            call()
    member("bob")
    service_accounts.change("ci", {"owner": "bob"}, actor=THE_SYSTEM)
    service_accounts.rotate_token("ci", token.prefix, actor=THE_SYSTEM)


def test_an_administrator_gives_no_rights_that_it_lacks(ada: User) -> None:
    """The attack: an account that may manage accounts creates one with more rights, and uses its token."""
    admin = administrator("mallory")
    body = {"id": "up", "owner": "mallory", "purpose": "builds", "roles": ["supervisor"]}
    refused = expect_refusal(admin.post(PLACE, body), 403, "permission_denied")
    assert "statecore.override_task" in refused["required"]
    create()
    for call in (
        admin.patch(f"{PLACE}ci/", {"owner": "mallory"}),
        admin.post(f"{PLACE}ci/tokens/", {"scope": "override"}),
    ):
        expect_refusal(call, 403, "permission_denied")
    expect_ok(admin.post(PLACE, {**body, "roles": ["viewer"]}), 201)
    expect_refusal(admin.post(f"{PLACE}up/tokens/", {"scope": "override"}), 403, "permission_denied")


@pytest.mark.parametrize("name", ["service/ci", "Service/CI", "service/ci/1", "service/new"])
def test_no_person_and_no_token_of_a_person_has_the_name_of_a_service_account(ada: User, name: str) -> None:
    create()
    service_accounts.issue_token("ci", "agent", actor=THE_SYSTEM)
    with pytest.raises(ValidationError, match="reserved for service accounts"):
        User.objects.create_user(name)
    with pytest.raises(Invalid, match="reserved for service accounts"):
        tokens.make(name, ada, "agent")
    for other in ("", "CI", "ci/1", "a b", "ада"):
        with pytest.raises(Invalid):
            create(other)
    with pytest.raises(Invalid):
        create("second", "service/ci")  # a program answers for no other


def test_a_service_account_and_its_owner_are_not_two_persons(ada: User, settings: Any) -> None:
    """The attack: the owner has the own service account request an override, or approve it."""
    settings.STATECORE_SECOND_PERSON = frozenset({"task->failed"})
    create()
    token, _text = service_accounts.issue_token("ci", "override", actor=THE_SYSTEM)
    person, service = Actor.operator(ada, Channel.CONSOLE), token.as_operator()
    body = {"to_state": "failed", "reason": world.REASON, "category": "other"}
    from statecore import transitions

    for requester, decider in ((service, person), (person, service)):
        task = world.running_task()
        transitions.override(type(task), task.pk, actor=requester, **body)
        with pytest.raises(SamePerson):
            approvals.approve(Approval.objects.latest("requested_at").pk, actor=decider)
    other = Actor.operator(member("bob", "supervisor"), Channel.CONSOLE)
    approvals.approve(Approval.objects.latest("requested_at").pk, actor=other)


def test_the_commands_create_issue_rotate_and_list(ada: User) -> None:
    def run(*words: str) -> str:
        out = StringIO()
        call_command(*words, stdout=out)
        return out.getvalue().strip()

    run("service_account", "create", "ci", "--owner", "ada", "--purpose", "builds", "--role", "operator")
    old = run("service_account", "issue", "ci", "--scope", "agent", "--expires", "10")
    new = run("token", "rotate", "service/ci/1", "--overlap", "1")
    assert (read_tasks(old), read_tasks(new)) == (200, 200)
    assert "2 tokens" in run("service_account", "change", "ci", "--purpose", "nightly builds")
    run("service_account", "disable", "ci")
    listed = json.loads(run("service_account", "list", "--json"))
    assert (listed["purpose"], listed["is_enabled"], listed["roles"]) == ("nightly builds", False, ["operator"])
    assert new not in str(listed)
    with pytest.raises(CommandError, match="disabled"):
        run("service_account", "issue", "ci", "--scope", "agent")
    with pytest.raises(CommandError, match="no role"):
        run("service_account", "change", "ci", "--role", "kings")
    # Tokens of people are rotated too, without a change of what they are.
    run("token", "create", "builder", "--user", "ada", "--scope", "agent")
    assert read_tasks(run("token", "rotate", "builder")) == 200
    assert Token.objects.get(name="builder/2").user == ada
