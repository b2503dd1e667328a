"""Incidents over REST: filters, entities, history, and what operators do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission

from statecore import scheduling
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now, rfc3339
from statecore.machines.task import Task
from statecore.operations.incidents import sweep
from statecore.records import Alert
from tests.api.callers import Caller, expect_ok, expect_refusal, member
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def found() -> dict[str, Any]:
    """The incident of a failed task on which another task and its workstream hang."""
    tasks = [{"id": "lint"}, {"id": "unit", "depends_on": ["lint"]}]
    plan = {"phase": world.phase().pk, "start": True, "workstreams": [{"id": "w", "tasks": tasks}]}
    scheduling.submit_plan(plan, actor=THE_SYSTEM)
    world.forced(Task.objects.get(pk="lint"), "failed")
    sweep()
    (each,) = expect_ok(Caller("read", name="first").get("incidents/?open=true"))["results"]
    return dict(each)


def test_an_incident_with_its_entities_and_suggested_actions(found: dict[str, Any]) -> None:
    assert (found["entity_type"], found["entity_id"], found["counts"]) == ("task", "lint", {"task": 1, "workstream": 1})
    ada = Caller("operate")
    one = expect_ok(ada.get(f"incidents/{found['id']}/"))
    assert one["actions"][0] == {"action": "retry", "entity_type": "task", "collection": "tasks", "id": "lint"}
    first = expect_ok(ada.get(f"incidents/{found['id']}/entities/?page_size=1"))
    second = expect_ok(ada.get(first["next"].partition("/api/v1/")[2]))
    assert {each["id"] for each in first["results"] + second["results"]} == {"unit", "w"}
    assert second["next"] is None
    assert expect_ok(Caller("read").get(f"incidents/{found['id']}/"))["actions"] == []
    expect_refusal(ada.get("incidents/999999/"), 404, "not_found")


def test_what_operators_do_is_in_the_history(found: dict[str, Any]) -> None:
    ada, place = Caller("operate"), f"incidents/{found['id']}"
    seen = expect_ok(ada.post(f"{place}/acknowledge/", {"note": "looking"}))
    assert (seen["acknowledged_by"], seen["owner"], seen["version"]) == (ada.user.username, ada.user.username, 2)
    other = member("eve", "operator").username
    assert expect_ok(ada.post(f"{place}/assign/", {"owner": other}))["owner"] == other
    until = rfc3339(now() + timedelta(hours=1))
    assert expect_ok(ada.post(f"{place}/snooze/", {"until": until}))["snoozed_until"] == until
    assert expect_ok(ada.get("incidents/?open=true&snoozed=false"))["results"] == []
    assert expect_ok(ada.get(f"incidents/?owner={other}&acknowledged=true"))["results"][0]["id"] == found["id"]
    expect_ok(ada.post(f"{place}/notes/", {"note": "a full disk"}))
    history = expect_ok(ada.get(f"{place}/history/"))["results"]
    assert [each["action"] for each in history] == ["noted", "snoozed", "assigned", "acknowledged", "opened"]


def test_an_older_version_a_stranger_and_a_past_moment_are_refused(found: dict[str, Any]) -> None:
    ada, place = Caller("operate"), f"incidents/{found['id']}"
    expect_ok(ada.post(f"{place}/acknowledge/"))
    stale = ada.post(f"{place}/assign/", {"owner": "", "expected_version": 1})
    assert expect_refusal(stale, 409, "stale_version")["version"] == 2
    expect_refusal(ada.post(f"{place}/assign/", {"owner": "a stranger"}), 400, "invalid")
    expect_refusal(ada.post(f"{place}/snooze/", {"until": "2020-01-01T00:00:00Z"}), 400, "invalid")
    expect_refusal(ada.post(f"{place}/notes/", {"note": ""}), 400, "invalid")
    expect_refusal(Caller("agent").post(f"{place}/acknowledge/"), 403, "permission_denied")
    bob = Caller("operate", user=member("bob", "operator"))
    bob.user.groups.get().permissions.remove(Permission.objects.get(codename="change_incident"))
    expect_refusal(bob.post(f"{place}/acknowledge/"), 403, "permission_denied")


def test_an_alert_is_silenced_until_a_moment() -> None:
    alert = Alert.objects.create(rule="stuck", key="x", severity="critical", detail="late", opened_at=now())
    ada, until = Caller("operate"), rfc3339(now() + timedelta(hours=1))
    silenced = expect_ok(ada.post(f"alerts/{alert.pk}/silence/", {"until": until}))
    assert (silenced["silenced_until"], silenced["silenced_by"]) == (until, ada.user.username)
    assert expect_ok(ada.post(f"alerts/{alert.pk}/silence/", {"until": None}))["silenced_until"] is None
