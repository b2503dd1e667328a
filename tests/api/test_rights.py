"""Permissions of every API call for every kind of caller."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import Permission, User
from django.test import Client

from statecore.api.openapi.views import build_document
from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.records import token as tokens
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.support import world

pytestmark = [pytest.mark.once_on("postgres"), pytest.mark.django_db]

SCOPES = ("read", "agent", "operate", "override", "integrate")
READ_ONLY = {"get"}


@cache
def calls() -> list[tuple[str, str]]:
    """Returns method and path of every operation in the schema, and of the schema and its page."""
    found = [
        (method, path.removeprefix("/api/v1/") + ("" if path.endswith((".svg", ".mmd", "artifacts/{name}")) else "/"))
        for path, ways in build_document()["paths"].items()
        for method in ways
    ]
    return [*found, ("get", "schema/"), ("get", "docs/")]


NUMBERS = {"{alert_id}", "{incident_id}"}


def fill_path(path: str) -> str:
    """Fills a path with ids that do not exist, so that a permitted call gets a 404."""
    return re.sub(r"\{\w+\}", lambda name: "0" if name[0] in NUMBERS else "nothing", path)


def status(text: str | None, method: str, path: str) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {text}"} if text else {}
    address = f"/api/v1/{fill_path(path)}"
    response = Client().generic(method.upper(), address, b"{}", content_type="application/json", headers=headers)
    answer = response.json() if "json" in response["Content-Type"] and response.content else {}
    return response.status_code, answer.get("code", "")


def invalid_tokens() -> dict[str, str | None]:
    boss = User.objects.create_superuser("boss")
    gone = User.objects.create_superuser("gone")
    with time_machine.travel("2026-01-01"):
        expired = tokens.make("expired", boss, "override", expires_in=timedelta(days=1))[1]
    revoked, text = tokens.make("revoked", boss, "override")
    tokens.revoke(revoked)
    inactive = tokens.make("inactive", gone, "override")[1]
    User.objects.filter(pk=gone.pk).update(is_active=False)
    return {"no token": None, "wrong": "stc_00000000_x", "expired": expired, "revoked": text, "inactive": inactive}


def test_every_call_refuses_an_unknown_caller() -> None:
    for who, text in invalid_tokens().items():
        for method, path in calls():
            assert status(text, method, path) == (401, "not_authenticated"), (who, method, path)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_allows_its_calls(scope: str) -> None:
    caller = Caller(scope)
    for method, path in calls():
        code, body = status(caller.text, method, path)
        is_refused = code == 403
        assert is_refused is (scope in needed_more(method, path)), (method, path, code, body)
        assert code != 401
        assert code < 500


def needed_more(method: str, path: str) -> set[str]:
    """Returns the scopes that are not sufficient for this call."""
    if method in READ_ONLY:
        return set()
    if path.endswith(("/override/", "/waive/")) or path.startswith(("approvals/", "audit/cosignatures/")):
        # An empty body or an unknown request is refused first; other tests send complete ones.
        return set()
    if path.endswith("/compensation/approve/") or path.startswith("service-accounts/"):
        return {"read", "agent", "operate", "integrate"}
    if path.endswith(("/retry/", "/drain/", "/acknowledge/", "/silence/")) or "/compensation/" in path:
        return {"read", "agent", "integrate"}
    if path.startswith(("bulk-jobs/", "incidents/")):
        return {"read", "agent", "integrate"}
    if path.startswith(("phases/", "holds/", "templates/", "schedules/", "webhooks/")) or (
        path.endswith(("/pause/", "/resume/")) and path.startswith("runs/")
    ):
        return {"read", "agent", "integrate"}
    if (method, path) in {("post", "gates/"), ("post", "breakers/")}:
        return {"read", "agent", "integrate"}
    if path.startswith(("patches/", "gates/")) and path.endswith(("transitions/", "bulk/", "heartbeat/")):
        return {"read"}
    return {"read", "integrate"}


@pytest.mark.parametrize("flow", registry.flows(), ids=lambda flow: flow.entity_type)
def test_an_override_takes_the_scope_and_the_permission_for_that_machine(flow: Any) -> None:
    body = {"to_state": flow.states[-1], "reason": "long enough a reason", "category": "other"}
    for scope in ("read", "agent", "operate"):
        answer = expect_refusal(
            Caller(scope).post(f"{flow.collection}/nothing/override/", body), 403, "permission_denied"
        )
        assert answer["required"] == flow.permission("override")
        many = {**body, "action": "override", "ids": ["nothing"]}
        expect_refusal(Caller(scope).post(f"{flow.collection}/bulk/", many), 403, "permission_denied")
    expect_refusal(Caller("override").post(f"{flow.collection}/nothing/override/", body), 404, "not_found")


def test_a_waiver_takes_the_scope_override_and_the_permission() -> None:
    gate, body = world.gate(), {"reason": "long enough a reason", "category": "other"}
    for scope in ("read", "agent", "operate", "integrate"):
        answer = expect_refusal(Caller(scope).post(f"gates/{gate.pk}/waive/", body), 403, "permission_denied")
        assert answer["required"] == "statecore.waive_testgate"
        many = {**body, "action": "waive", "ids": [gate.pk]}
        expect_refusal(Caller(scope).post("gates/bulk/", many), 403, "permission_denied")
    forcing = Caller("override", user=plain_user("forcing", "override_testgate"))
    expect_refusal(forcing.post(f"gates/{gate.pk}/waive/", body), 403, "permission_denied")
    naive = {**body, "expires_at": "2100-01-01T00:00:00"}
    expect_refusal(Caller("override").post(f"gates/{gate.pk}/waive/", naive), 400, "invalid")
    answer = expect_ok(
        Caller("override").post(f"gates/{gate.pk}/waive/", {**naive, "expires_at": "2100-01-01T00:00:00Z"})
    )
    assert (answer["entity"]["state"], answer["entity"]["waiver"]["expires_at"][:4]) == ("PENDING", "2100")


def plain_user(name: str, *permissions: str) -> User:
    user = User.objects.create_user(name)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


def test_a_token_never_does_what_its_user_may_not() -> None:
    task = world.task()
    body = {"to_state": "failed", "reason": "long enough a reason", "category": "other"}
    nobody = Caller("override", user=plain_user("nobody", "override_task"))
    nobody.user.user_permissions.clear()
    expect_refusal(nobody.post(f"tasks/{task.pk}/override/", body), 403, "permission_denied")
    expect_refusal(nobody.post("pipeline-jobs/", {}), 403, "permission_denied")
    expect_refusal(nobody.patch(f"tasks/{task.pk}/", {"priority": 1}), 403, "permission_denied")
    other = Caller("override", user=plain_user("other", "override_run", "operate_task"))
    expect_refusal(other.post(f"tasks/{task.pk}/override/", body), 403, "permission_denied")
    expect_ok(other.patch(f"tasks/{task.pk}/", {"priority": 1}))
    right = Caller("override", user=plain_user("right", "override_task"))
    expect_ok(right.post(f"tasks/{task.pk}/override/", body))


def test_a_session_does_what_its_user_may() -> None:
    client, task = Client(), world.running_task()
    client.force_login(plain_user("nobody"))
    fire = {"data": {"trigger": "user_cancelled"}, "content_type": "application/json"}
    expect_refusal(client.get("/api/v1/tasks/"), 403, "permission_denied")
    expect_refusal(client.post(f"/api/v1/tasks/{task.pk}/transitions/", **fire), 403, "permission_denied")
    client.force_login(plain_user("right", "operate_task"))
    answer = expect_ok(client.post(f"/api/v1/tasks/{task.pk}/transitions/", **fire))
    assert answer["event"]["operator"] == "right"


def test_a_session_without_rights_makes_none_of_the_calls_of_agents() -> None:
    worker, job = world.idle_worker(), world.created("PipelineJob")
    place = f"pipeline-jobs/{job.pk}/checkpoints/mapping/"
    expect_ok(Caller("agent").put(place, {"row": 1}))
    client = Client()
    client.force_login(plain_user("nobody"))
    with time_machine.travel(now() + timedelta(minutes=5)):
        for method, path in (
            ("put", place), ("delete", place),
            ("post", f"workers/{worker.pk}/heartbeat/"), ("post", f"workers/{worker.pk}/claim/"),
        ):  # fmt: skip
            response = getattr(client, method)(f"/api/v1/{path}", data={}, content_type="application/json")
            expect_refusal(response, 403, "permission_denied")
    assert expect_ok(Caller("read").get(place)) == {"row": 1}
    assert type(worker).objects.get(pk=worker.pk).last_heartbeat == worker.last_heartbeat


def test_a_throttled_call_returns_a_retry_time(settings: Any) -> None:
    settings.STATECORE_CALLS_PER_MINUTE = 3
    with time_machine.travel("2026-01-01T00:00:20Z", tick=False) as clock:
        caller, other = Caller("read"), Caller("read")
        for _ in range(3):
            expect_ok(caller.get("tasks/"))
        response = caller.get("tasks/")
        expect_refusal(response, 429, "throttled")
        assert response["Retry-After"] == "40"
        expect_ok(other.get("tasks/"))
        clock.shift(40)
        expect_ok(caller.get("tasks/"))
