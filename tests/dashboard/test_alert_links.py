"""Each alert links the page that lists exactly what it counts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from statecore.dashboard.queries import alert_links
from statecore.delivery.sinks import alert_rules
from statecore.kernel.clock import now
from statecore.records import Alert
from tests.dashboard.scene import Scene
from tests.dashboard.test_counts import make_overdue
from tests.support import world
from tests.support.plans import insert_copies


@pytest.fixture
def viewer(people: dict[str, Any], client: Client) -> Client:
    client.force_login(people["viewer"])
    return client


def raise_alert(rule: str, key: str, **fields: Any) -> Alert:
    return Alert.objects.create(
        rule=rule, key=key, severity="warning", detail=f"{rule} {key}", opened_at=now(), **fields
    )


def open_list(client: Client, alert: Alert) -> Any:
    """Follows the link of the alert from the page of alerts."""
    shown = {each.pk: url for each, url in client.get(reverse("console:alerts")).context["open_now"]}
    return client.get(shown[alert.pk])


def test_every_rule_links_what_it_counts() -> None:
    names = {rule.name for rule in alert_rules.RULES}
    linked = {rule.name for rule in alert_rules.ENTRY_RULES} | set(alert_links.LISTS) | alert_links.WITHOUT_LINK
    assert names == linked, "name a new rule in dashboard/queries/alert_links.py"


def test_blocked_tasks(viewer: Client, scene: Scene) -> None:
    assert scene.second.state == "blocked"
    insert_copies(scene.second, 6)

    page = open_list(viewer, raise_alert("blocked_tasks", "blocked"))

    assert {row.entity.state for row in page.context["page"].rows} == {"blocked"}
    assert len(page.context["page"].rows) == 7


def test_stuck_entities_are_those_past_the_multiple_of_the_rule(viewer: Client, scene: Scene) -> None:
    insert_copies(make_overdue(scene.first), 4)
    (found,) = (each for each in alert_rules.find_stuck(now()) if each.key == "task.queued")

    page = open_list(viewer, raise_alert("stuck", found.key))

    assert {row.entity.pk for row in page.context["page"].rows} == set(found.facts["ids"])
    assert len(found.facts["ids"]) == 5


def test_tasks_without_progress(viewer: Client, scene: Scene) -> None:
    stalled = world.running_task(timeout_sec=7200)
    world.touched(stalled, progress_due_at=now() - timedelta(minutes=1))
    world.running_task(timeout_sec=7200)

    page = open_list(viewer, raise_alert("no_progress", "tasks"))

    assert [row.entity.pk for row in page.context["page"].rows] == [stalled.pk]


def test_entities_that_an_integrity_check_found(viewer: Client, scene: Scene) -> None:
    facts = {"check": "chain", "entity_type": "task", "ids": ["scene-t1", "scene-t3"]}

    page = open_list(viewer, raise_alert("integrity", "chain.task", facts=facts))

    assert {row.entity.pk for row in page.context["page"].rows} == {"scene-t1", "scene-t3"}
    many = raise_alert("integrity", "other.task", facts={**facts, "ids": [f"task-{n:04}" for n in range(60)]})
    assert alert_links.find_link(many) is None


def test_overrides_of_the_last_minutes(viewer: Client, scene: Scene) -> None:
    page = open_list(viewer, raise_alert("override_spike", "overrides"))

    assert [event["entity_id"] for event in page.context["events"]] == ["scene-t3"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("failure_rate", {"severity": "failures"}),
        ("retry_rate", {"machine": "task", "from_state": "running", "to_state": "retrying"}),
        ("quarantined_patches", {"machine": "patch_ledger", "to_state": "quarantined"}),
    ],
)
def test_events_of_the_window(rule: str, expected: dict[str, str], viewer: Client, scene: Scene) -> None:
    page = open_list(viewer, raise_alert(rule, rule))

    given = {name: value for name, value in page.context["given"].items() if value}
    assert {name: value for name, value in given.items() if name != "since"} == expected
    assert page.context["events"] == []


def test_a_resolved_alert_links_the_events_before_its_end(viewer: Client, scene: Scene) -> None:
    alert = raise_alert("override_spike", "overrides", resolved_at=now() - timedelta(days=1))
    shown = dict(viewer.get(reverse("console:alerts")).context["resolved"])

    assert viewer.get(shown[alert]).context["events"] == []


def test_an_alert_about_one_entity_links_it(viewer: Client, scene: Scene) -> None:
    world.open_breaker("helm")

    page = open_list(viewer, raise_alert("breaker_open", "helm"))

    assert page.context["entity"].pk == "helm"


def test_an_alert_links_nothing_that_the_user_may_not_open(
    people: dict[str, Any], scene: Scene, client: Client
) -> None:
    from django.contrib.auth.models import Permission

    alerts = [raise_alert(rule, "task.queued") for rule in ("blocked_tasks", "override_spike", "stuck", "breaker_open")]
    gone = raise_alert("stuck", "removed_machine.waiting")
    people["nobody"].user_permissions.add(Permission.objects.get(codename="view_alert"))
    client.force_login(people["nobody"])

    shown = dict(client.get(reverse("console:alerts")).context["open_now"])
    assert [shown[alert] for alert in (*alerts, gone)] == [""] * 5
