"""Visibility of machines per user, and the rights of a token whose owner has lost some."""

from __future__ import annotations

from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from statecore.delivery.sinks.counters import Counters
from statecore.kernel import registry
from statecore.operations.incidents import sweep
from statecore.records import Incident
from tests.api.callers import Caller, expect_ok, expect_refusal, member
from tests.api.test_rights import calls, fill_path, plain_user
from tests.support import world
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db

# Calls that reveal nothing about entities.
FOR_ALL = {"schema/", "docs/"}


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def answers(client: Client) -> dict[str, int]:
    return {
        path: client.get(f"/api/v1/{fill_path(path)}").status_code
        for method, path in calls()
        if method == "get" and path not in FOR_ALL
    }


def test_an_account_without_a_group_reads_nothing() -> None:
    client = logged_in(User.objects.create_user("nobody"))
    reply = answers(client)
    # A bulk job that does not exist has no owner, and an unknown machine is a 404 for all. Everybody sees the service
    # accounts that they own: here none.
    assert reply.pop("service-accounts/") == 200
    missing = {path for path, code in reply.items() if code != 403}
    assert missing == {path for path in reply if path.startswith(("bulk-jobs/", "machines/{", "service-accounts/"))}
    assert all(reply[path] == 404 for path in missing)


@pytest.mark.parametrize("group", ["viewer", "operator", "supervisor"])
def test_a_member_of_a_group_reads_everything(group: str) -> None:
    reply = answers(logged_in(member("somebody", group)))
    refused = [path for path, code in reply.items() if code == 403]
    webhooks = [path for path in reply if path.startswith("webhooks/")]
    expected = {"viewer": ["audit/accounts/", *webhooks], "operator": ["audit/accounts/"], "supervisor": []}
    assert refused == expected[group]


def test_a_viewer_of_one_machine_reads_no_other() -> None:
    task = world.task()
    client = logged_in(plain_user("ada", "view_task", "view_event"))
    assert {each["entity_type"] for each in expect_ok(client.get("/api/v1/machines/"))["results"]} == {"task"}
    assert expect_ok(client.get(f"/api/v1/tasks/{task.pk}/"))["id"] == task.pk
    expect_refusal(client.get(f"/api/v1/runs/{task.run_id}/"), 403, "permission_denied")
    expect_refusal(client.get(f"/api/v1/runs/{task.run_id}/at/"), 403, "permission_denied")
    stats = expect_ok(client.get("/api/v1/stats/"))
    assert set(stats["counts"]) == {"task"}
    assert set(stats["rates"]["machines"]) | set(stats["stuck"]["machines"]) <= {"task"}
    expect_refusal(client.get("/api/v1/events/?entity_type=run"), 403, "permission_denied")
    expect_refusal(client.get("/api/v1/stuck/?entity_type=run"), 403, "permission_denied")
    assert {each["entity_type"] for each in expect_ok(client.get("/api/v1/stuck/"))["results"]} <= {"task"}
    reply = expect_ok(client.get("/api/v1/events/"))["results"]
    assert {each["event"]["entity_type"] for each in reply} <= {"task"}


def test_a_viewer_of_one_machine_gets_no_name_of_another() -> None:
    with time_machine.travel("2026-01-01", tick=False):
        gate = world.gate(id="gate-x")
        parent = world.forced(world.workstream(), "ready")
        task = world.task(workstream=parent, entry_gates=[gate.pk])
    sweep()
    incident = Incident.objects.get(entities__entity_id=task.pk)
    for user, is_told in ((plain_user("ada", "view_task", "view_event"), False), (member("bob"), True)):
        client = logged_in(user)
        answers = [
            client.get(f"/api/v1/tasks/{task.pk}/explain/"),
            client.get("/api/v1/stuck/"),
            client.get(reverse("console:why", args=["tasks", task.pk])),
            client.get(reverse("console:incident", args=[incident.pk])),
            client.get(f"/api/v1/incidents/{incident.pk}/entities/"),
            Caller("read", user=user).get(f"tasks/{task.pk}/explain/"),
        ]
        assert [answer.status_code for answer in answers] == [200] * 6
        assert [gate.pk in answer.content.decode() for answer in answers] == [is_told] * 6
        assert ["an entity you cannot access" in answer.content.decode() for answer in answers] == [not is_told] * 6


def test_a_bulk_call_names_no_consequences_in_hidden_machines() -> None:
    run = world.task().run
    body = {"action": "cancel", "ids": [run.pk], "dry_run": True, "reason": "called off"}
    ada = Caller("operate", user=plain_user("ada", "view_run", "operate_run", "view_task"))
    caused = expect_ok(ada.post("runs/bulk/", body))["caused"]
    assert {each["entity_type"] for each in caused} == {"task"}
    assert {each["entity_type"] for each in expect_ok(Caller("operate").post("runs/bulk/", body))["caused"]} > {"task"}


@pytest.mark.django_db(transaction=True)
def test_a_viewer_of_one_machine_may_open_the_overview_pages() -> None:
    world.queued_task()
    catch_up(Counters())
    client = logged_in(plain_user("ada", "view_task", "view_event"))
    for page in ("overview", "wall"):
        shown = client.get(reverse(f"console:{page}"))
        assert shown.status_code == 200
        assert "blocked gates" not in shown.content.decode()
        assert set(shown.context["stats"]["counts"]) == {"task"}


@pytest.mark.parametrize("scope", ["read", "agent", "operate", "override"])
def test_a_token_has_the_current_rights_of_its_owner(scope: str) -> None:
    task, job = world.task(), world.created("PipelineJob")
    caller = Caller(scope, user=member("ada", "supervisor"))
    expect_ok(caller.get(f"tasks/{task.pk}/"))
    caller.user.groups.set([Group.objects.get(name="viewer")])
    expect_ok(caller.get(f"tasks/{task.pk}/"))
    expect_refusal(
        caller.post(f"pipeline-jobs/{job.pk}/transitions/", {"trigger": "analyze"}), 403, "permission_denied"
    )
    caller.user.groups.clear()
    expect_refusal(caller.get(f"tasks/{task.pk}/"), 403, "permission_denied")
    expect_refusal(caller.get("stats/"), 403, "permission_denied")


def test_a_replay_needs_the_permission_for_the_call() -> None:
    job, key = world.created("PipelineJob"), {"Idempotency-Key": "once"}
    caller = Caller("agent", user=member("ada", "operator"))
    fire = (f"pipeline-jobs/{job.pk}/transitions/", {"trigger": "analyze"})
    first = expect_ok(caller.post(*fire, **key))
    again = caller.post(*fire, **key)
    assert expect_ok(again) == first
    assert again["Idempotent-Replayed"] == "true"
    caller.user.groups.set([Group.objects.get(name="viewer")])
    expect_refusal(caller.post(*fire, **key), 403, "permission_denied")


def test_in_read_only_mode_browsers_change_nothing_and_api_clients_do(settings: Any) -> None:
    client, agent = logged_in(member("ada", "supervisor")), Caller("agent")
    job = world.created("PipelineJob")
    fire = {"data": {"trigger": "analyze"}, "content_type": "application/json"}
    settings.STATECORE_READ_ONLY = True
    reply = expect_refusal(
        client.post(f"/api/v1/pipeline-jobs/{job.pk}/transitions/", **fire), 403, "permission_denied"
    )
    assert "STATECORE_READ_ONLY" in reply["detail"]
    assert expect_ok(client.get(f"/api/v1/pipeline-jobs/{job.pk}/"))["version"] == job.version
    expect_ok(agent.post(f"pipeline-jobs/{job.pk}/transitions/", {"trigger": "analyze"}))
    settings.STATECORE_READ_ONLY_FOR_PROGRAMS = True
    for method, path in calls():
        if method != "get":
            expect_refusal(agent(method, fill_path(path), {}), 403, "permission_denied")
    expect_ok(agent.get(f"pipeline-jobs/{job.pk}/"))


@pytest.mark.parametrize("strange", [".", ".."])
def test_an_id_that_no_address_can_hold_is_not_given(strange: str) -> None:
    caller = Caller("operate")
    reply = expect_refusal(caller.post("pipeline-jobs/", {"id": strange}), 400, "invalid")
    assert "id" in reply["errors"]
    expect_refusal(caller.post("phases/", {"id": strange}), 400, "invalid")
    plan = {"id": "r", "phase": "p", "workstreams": [{"id": "w", "tasks": [{"id": strange}]}]}
    expect_refusal(caller.post("runs/submit/", plan), 400, "invalid")


def test_every_machine_has_the_right_to_see_it() -> None:
    codes = set(Permission.objects.values_list("codename", flat=True))
    assert {flow.permission("view").partition(".")[2] for flow in registry.flows()} <= codes
