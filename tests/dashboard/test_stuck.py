"""The stuck page: acknowledgements, paging and cost; the audit filter by channel."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
import time_machine
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from statecore import scheduling
from statecore.machines.task import Task
from statecore.read_models import stuck
from tests.dashboard.scene import Scene
from tests.support import world
from tests.support.plans import insert_copies

STUCK = "/stuck/"


@pytest.fixture
def late(scene: Scene) -> Any:
    return long_ago(scene.first)


def long_ago(task: Any) -> Any:
    """Sets the entry into its state back by days."""
    task.refresh_from_db()
    type(task).objects.filter(pk=task.pk).update(state_entered_at=task.state_entered_at - timedelta(days=2))
    task.refresh_from_db()
    return task


def row(client: Client, entity_id: str) -> Any:
    rows = client.get(STUCK).context["rows"]
    return next(row for row in rows if row["item"].entity.pk == entity_id)


def test_the_first_acknowledgement_is_kept_until_the_state_changes(
    late: Any, people: dict[str, Any], client: Client
) -> None:
    see = reverse("console:acknowledge_stuck", args=["tasks", late.pk])
    client.force_login(people["operator"])
    assert row(client, late.pk)["item"].acknowledged is None
    client.post(see)
    client.force_login(people["supervisor"])
    client.post(see)

    assert row(client, late.pk)["item"].acknowledged.actor == "operator"
    listed = next(item for item in stuck.list_stuck() if item.entity.pk == late.pk).as_dict()
    assert (listed["acknowledged_by"], bool(listed["acknowledged_at"])) == ("operator", True)
    world.forced(late, "pending")
    long_ago(late)
    assert row(client, late.pk)["item"].acknowledged is None


def test_acknowledging_returns_to_the_same_list(late: Any, people: dict[str, Any], client: Client) -> None:
    client.force_login(people["operator"])
    place = f"{STUCK}?machine=task"
    see = re.search(r'action="(/stuck/[^"]+/acknowledge/[^"]*)"', client.get(place).content.decode())
    assert see

    assert client.post(unescape(see[1]))["Location"] == place


def test_viewers_are_not_offered_to_acknowledge(late: Any, people: dict[str, Any], client: Client) -> None:
    client.force_login(people["viewer"])
    assert not row(client, late.pk)["may_acknowledge"]
    assert reverse("console:acknowledge_stuck", args=["tasks", late.pk]) not in client.get(STUCK).content.decode()


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


def test_the_stuck_list_has_further_pages(late: Any, people: dict[str, Any], client: Client) -> None:
    insert_copies(late, 150)
    client.force_login(people["supervisor"])
    address, shown, sizes = f"{STUCK}?machine=task", [], []
    while address:
        page = client.get(address)
        shown += [row["item"].entity.pk for row in page.context["rows"]]
        sizes.append(len(page.context["rows"]))
        found = re.search(r'rel="next" data-next href="([^"]+)"', page.content.decode())
        address = f"{STUCK}{unescape(found[1])}" if found else ""

    assert sizes[0] == 100
    assert len(sizes) == 2
    assert sorted(shown) == sorted(item.entity.pk for item in stuck.list_stuck(1_000, entity_type="task"))
    assert client.get(STUCK, {"after": "nowhere"}).context["is_first"]


@pytest.mark.django_db
def test_a_longer_stuck_list_runs_no_more_queries(people: dict[str, Any], client: Client) -> None:
    client.force_login(people["supervisor"])
    with time_machine.travel("2026-01-01", tick=False):
        run = world.fire(world.run(), "run_started")
    asked = {}
    for count in (5, 20):
        with time_machine.travel("2026-01-01", tick=False):
            parent = world.workstream(run=run)
            for _ in range(count):
                world.task(workstream=parent)
        client.get(STUCK)  # warms the caches of the process
        with CaptureQueriesContext(connection) as queries:
            shown = client.get(STUCK, {"machine": "task"}).context["rows"]
        asked[len(shown)] = len(queries)
    assert list(asked) == [5, 25]
    assert asked[25] == asked[5], [query["sql"][:150] for query in queries]


def read_digest(client: Client, place: str = STUCK) -> str:
    """What an open page fetches to notice a change of its list."""
    cache.clear()
    separator = "&" if "?" in place else "?"
    answer = client.get(f"{place}{separator}part=digest", headers={"HX-Request": "true"})
    return str(answer.content.decode())


def test_a_list_of_the_same_length_with_other_entries_has_another_digest(
    late: Any, scene: Scene, people: dict[str, Any], client: Client
) -> None:
    client.force_login(people["operator"])
    page = client.get(STUCK)
    assert read_digest(client) == page.context["digest"]
    length = len(page.context["rows"])

    other = long_ago(world.queued_task())
    world.forced(late, "cancelled")

    page = client.get(STUCK)
    assert other.pk in {row["item"].entity.pk for row in page.context["rows"]}
    assert len(page.context["rows"]) == length
    assert read_digest(client) == page.context["digest"] != read_digest(client, f"{STUCK}?machine=run")


def test_an_acknowledgement_changes_the_digest(late: Any, people: dict[str, Any], client: Client) -> None:
    client.force_login(people["operator"])
    before = read_digest(client)

    client.post(reverse("console:acknowledge_stuck", args=["tasks", late.pk]))

    assert read_digest(client) != before


def test_the_digest_is_computed_once_for_all_open_pages(late: Any, people: dict[str, Any], client: Client) -> None:
    client.force_login(people["operator"])
    read_digest(client)
    with CaptureQueriesContext(connection) as queries:
        client.get(STUCK, {"part": "digest"}, headers={"HX-Request": "true"})

    assert not [query for query in queries if "statecore_task" in query["sql"]]


def test_alerts_of_the_same_number_have_another_digest(scene: Scene, people: dict[str, Any], client: Client) -> None:
    client.force_login(people["operator"])
    alerts = reverse("console:alerts")
    before = client.get(alerts).context["digest"]
    assert read_digest(client, alerts) == before

    scene.alert.detail = "something else is late"
    scene.alert.save()

    assert read_digest(client, alerts) != before


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

    actions = row(client, task.workstream_id)["actions"]
    assert [label for label, _title, _url in actions] == labels
    assert {client.get(url).status_code for _label, _title, url in actions} <= {200}
    why = client.get(reverse("console:why", args=["workstreams", task.workstream_id]), headers={"HX-Request": "true"})
    assert (reverse("console:retry", args=["tasks", task.pk]) in why.content.decode()) == bool(labels)
