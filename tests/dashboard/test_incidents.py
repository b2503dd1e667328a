"""The pages of incidents: actions, conflicts, permissions, paging and cost; the audit filter by channel."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from statecore import scheduling
from statecore.kernel.clock import now
from statecore.machines.task import Task
from statecore.operations.incidents import sweep
from statecore.read_models import stuck
from statecore.records import Incident, incident
from tests.dashboard.scene import Scene
from tests.support import world
from tests.support.plans import insert_copies

INCIDENTS = "/incidents/"


@pytest.fixture
def late(scene: Scene) -> Any:
    return long_ago(scene.first)


def long_ago(task: Any) -> Any:
    """Sets the entry into its state back by days."""
    task.refresh_from_db()
    type(task).objects.filter(pk=task.pk).update(state_entered_at=task.state_entered_at - timedelta(days=2))
    task.refresh_from_db()
    return task


def find_incident(entity: Any) -> Incident:
    sweep()
    return Incident.objects.get(entities__entity_id=entity.pk, entities__entity_type=entity.flow.entity_type)


def act(client: Client, found: Incident, action: str, **fields: Any) -> Any:
    return client.post(reverse("console:incident_action", args=[found.pk]), {"action": action, **fields})


def test_the_actions_of_an_operator(late: Any, people: dict[str, Any], client: Client) -> None:
    found = find_incident(late)
    client.force_login(people["operator"])
    assert "not acknowledged" not in client.get(INCIDENTS).content.decode()  # there is a button instead
    steps = [
        ("acknowledge", {"note": "looking at it"}),
        ("assign", {"owner": "supervisor", "note": "your shift"}),
        ("note", {"note": "the host was down"}),
        ("snooze", {"minutes": "60"}),
    ]
    for action, fields in steps:
        assert act(client, found, action, **fields).status_code == 302

    found.refresh_from_db()
    assert (found.acknowledged_by, found.owner, found.version) == ("operator", "supervisor", 5)
    assert found.is_snoozed(now())
    page = client.get(reverse("console:incident", args=[found.pk])).content.decode()
    for text in ("looking at it", "to supervisor: your shift", "the host was down"):
        assert text in page
    item = next(item for item in stuck.list_stuck() if item.entity.pk == late.pk).as_dict()
    assert (item["incident"], item["acknowledged_by"]) == (found.pk, "operator")
    assert {view: found.cause in client.get(INCIDENTS, {"view": view}).content.decode() for view in VIEWS} == {
        "open": False, "unacknowledged": False, "mine": False, "snoozed": True, "resolved": False,
    }  # fmt: skip
    act(client, found, "wake")
    assert found.cause in client.get(INCIDENTS).content.decode()


VIEWS = ("open", "unacknowledged", "mine", "snoozed", "resolved")


def test_of_two_operators_the_later_one_keeps_the_text(late: Any, people: dict[str, Any], client: Client) -> None:
    found = find_incident(late)
    client.force_login(people["operator"])
    seen = found.version
    incident.assign(found.pk, "eve", "supervisor")

    answer = act(client, found, "assign", owner="operator", note="I take this", version=seen)

    assert answer.status_code == 409
    body = answer.content.decode()
    assert "The state changed while you were editing." in body
    assert ">I take this</textarea>" in body
    assert 'value="operator" list="owners"' in body
    assert f'name="version" value="{seen + 1}"' in body
    found.refresh_from_db()
    assert found.owner == "supervisor"


@pytest.mark.parametrize(
    ("action", "fields", "says"),
    [
        ("assign", {"owner": "a stranger"}, "there is no active account"),
        ("note", {"note": " "}, "must not be empty"),
        ("note", {"note": "x" * 2_001}, "at most 2000 characters"),
    ],
)
def test_a_refusal_says_why(
    action: str, fields: dict[str, str], says: str, late: Any, people: dict[str, Any], client: Client
) -> None:
    client.force_login(people["operator"])
    answer = act(client, find_incident(late), action, **fields)
    assert (answer.status_code, says in answer.content.decode()) == (422, True)


def test_viewers_and_read_only_consoles_are_offered_no_action(
    late: Any, people: dict[str, Any], client: Client, settings: Any
) -> None:
    found = find_incident(late)
    for name, is_read_only in (("viewer", False), ("operator", True)):
        settings.STATECORE_READ_ONLY = is_read_only
        client.force_login(people[name])
        pages = [client.get(INCIDENTS), client.get(reverse("console:incident", args=[found.pk]))]
        assert not any('value="acknowledge"' in page.content.decode() for page in pages)
        assert act(client, found, "acknowledge").status_code == 403


def test_the_page_of_an_incident_follows(late: Any, people: dict[str, Any], client: Client) -> None:
    found = find_incident(late)
    client.force_login(people["operator"])
    url = reverse("console:incident", args=[found.pk])
    page = client.get(url).content.decode()
    part = client.get(url, {"part": "list"}, headers={"HX-Request": "true"}).content.decode()
    sections = [re.findall(r'data-section="(\w+)"', each) for each in (page, part)]
    assert sections == [["title", "actions", "affected", "details", "respond", "history"]] * 2
    assert ("<html" in page, "<html" in part, "data-live-list" in page) == (True, False, True)
    # After a refusal the form has what was typed, which must stay.
    assert "data-live-list" not in act(client, found, "note", note=" ").content.decode()


def test_a_row_is_returned_to_a_script(late: Any, people: dict[str, Any], client: Client) -> None:
    found = find_incident(late)
    client.force_login(people["operator"])
    url = reverse("console:incident_action", args=[found.pk])
    row = client.post(url, {"action": "acknowledge"}, headers={"HX-Request": "true"}).content.decode()
    assert row.strip().startswith(f'<tr data-id="{found.pk}"')
    assert "acknowledged" in row


def test_the_entities_of_an_incident_have_further_pages(late: Any, people: dict[str, Any], client: Client) -> None:
    insert_copies(late, 120)
    found = find_incident(late)
    assert found.counts["task"] == 122  # with the one that is blocked behind it
    client.force_login(people["supervisor"])
    address, shown = reverse("console:incident", args=[found.pk]), []
    here = address
    while address:
        page = client.get(address)
        shown += [row["item"].entity.pk for row in page.context["items"]]
        more = re.search(r'rel="next" data-next href="([^"]+)"', page.content.decode())
        address = f"{here}{more[1]}" if more else ""

    assert len(shown) == len(set(shown)) == sum(found.counts.values())


@pytest.mark.django_db
def test_more_incidents_and_entities_run_no_more_queries(people: dict[str, Any], client: Client) -> None:
    client.force_login(people["supervisor"])
    asked: dict[str, list[int]] = {}
    for count in (3, 20):
        with time_machine.travel("2026-01-01", tick=False):
            for _ in range(count):
                workstream = world.forced(world.workstream(), "executing")
                world.forced(world.task(workstream=workstream), "failed")
                world.run()
        sweep()
        group = Incident.objects.get(key="late run.pending")
        for path in (INCIDENTS, reverse("console:incident", args=[group.pk])):
            client.get(path)  # warms the caches of the process
            with CaptureQueriesContext(connection) as queries:
                assert client.get(path).status_code == 200
            asked.setdefault(path, []).append(len(queries))
    assert all(few == many for few, many in asked.values()), asked


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("viewer", []),
        ("operator", ["Retry task", "Cancel workstream"]),
        ("supervisor", ["Retry task", "Cancel workstream", "Fail workstream"]),
    ],
)
def test_a_decision_has_a_button_for_each_action_that_the_user_may_take(
    name: str, labels: list[str], people: dict[str, Any], client: Client
) -> None:
    plan = {"phase": world.phase().pk, "start": True, "workstreams": [{"id": "undecided", "tasks": [{"id": "lost"}]}]}
    scheduling.submit_plan(plan, actor=world.operator())
    task = world.fire(Task.objects.get(pk="lost"), "worker_started", worker=world.idle_worker().pk)
    world.forced(task, "failed")
    client.force_login(people[name])
    found = find_incident(task.workstream)

    page = client.get(reverse("console:incident", args=[found.pk]))
    assert [each.label for each in page.context["actions"]] == labels
    assert {client.get(each.url).status_code for each in page.context["actions"]} <= {200}
    why = client.get(reverse("console:why", args=["workstreams", task.workstream_id]), headers={"HX-Request": "true"})
    assert (reverse("console:retry", args=["tasks", task.pk]) in why.content.decode()) == bool(labels)


def test_the_retry_that_is_suggested_shows_what_will_follow(people: dict[str, Any], client: Client) -> None:
    tasks = [{"id": "lost"}, {"id": "after", "depends_on": ["lost"]}]
    plan = {"phase": world.phase().pk, "start": True, "workstreams": [{"id": "preview-w", "tasks": tasks}]}
    scheduling.submit_plan(plan, actor=world.operator())
    world.forced(Task.objects.get(pk="lost"), "failed")
    client.force_login(people["operator"])
    place = reverse("console:retry", args=["tasks", "lost"])
    preview = client.get(place, headers={"HX-Request": "true"}).content.decode()
    assert "Preview, dry run just now" in preview
    assert not Task.objects.filter(retry_of="lost").exists()
    client.post(place)
    again = client.get(place, headers={"HX-Request": "true"}).content.decode()
    assert "Would be refused" in again


def test_the_runbook_of_its_rule_is_on_the_page(people: dict[str, Any], scene: Scene, client: Client) -> None:
    world.open_breaker("aider")
    with time_machine.travel(now() + timedelta(days=1)):
        sweep()
    found = Incident.objects.get(key="late circuit_breaker.OPEN")
    client.force_login(people["viewer"])
    page = client.get(reverse("console:incident", args=[found.pk])).content.decode()
    assert '<div class="pad stack runbook"><p><strong>Meaning.</strong> An entity has been in its state' in page
    assert "<td>no live worker has the required capability</td>" in page


def test_the_list_of_stuck_entities_leads_here(people: dict[str, Any], client: Client) -> None:
    client.force_login(people["viewer"])
    assert client.get("/stuck/")["Location"] == INCIDENTS


def test_an_alert_is_silenced_and_heard_again(scene: Scene, people: dict[str, Any], client: Client) -> None:
    client.force_login(people["operator"])
    place = reverse("console:silence", args=[scene.alert.pk])
    assert client.post(place, {"minutes": "60"}).status_code == 302
    assert "silenced by operator" in client.get(reverse("console:alerts")).content.decode()
    client.post(place)
    scene.alert.refresh_from_db()
    assert not scene.alert.is_silenced(now())


@pytest.mark.parametrize(("channel", "found"), [("console", {"scene-t3"}), ("cli", set()), ("nonsense", None)])
def test_the_audit_is_filtered_by_channel(
    channel: str, found: set[str] | None, people: dict[str, Any], scene: Scene, client: Client
) -> None:
    client.force_login(people["viewer"])
    events = client.get(reverse("console:audit"), {"channel": channel}).context["events"]

    if found is None:  # an unknown channel is ignored
        assert len({event["channel"] for event in events}) > 1
    else:
        assert {event["entity_id"] for event in events} == found
