"""Pages offer only what applies, show only columns that a machine has, and say what to do next."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from statecore.dashboard.pages.entity import list_details
from statecore.kernel.clock import now
from statecore.records import Approval, approval
from tests.dashboard.scene import Scene, number_all
from tests.support import world


@pytest.fixture
def operator(people: dict[str, Any], client: Client) -> Client:
    client.force_login(people["operator"])
    return client


def text_of(response: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


def test_actions_of_agents_and_the_system_are_listed_apart(operator: Client, scene: Scene) -> None:
    page = operator.get(reverse("console:why", args=["runs", "scene"]))

    assert [each.trigger for each in page.context["open_transitions"]] == ["run_canceled"]
    assert page.context["closed_transitions"] == []
    automatic = {each.trigger for each in page.context["automatic_transitions"]}
    assert automatic == {"all_workstreams_completed", "critical_workstream_failed", "nothing_can_continue"}
    assert "3 transitions made by agents or the system" in text_of(page)


def test_an_entity_without_an_open_action_shows_that(operator: Client, people: dict[str, Any], scene: Scene) -> None:
    gate = world.gate()
    url = reverse("console:why", args=["gates", gate.pk])
    assert "No action applies now." in text_of(operator.get(url))
    assert "Force a state" not in text_of(operator.get(url))

    operator.force_login(people["supervisor"])
    assert "If necessary, use Force a state above." in text_of(operator.get(url))


def test_a_list_has_only_the_columns_of_its_machine(operator: Client, scene: Scene) -> None:
    def headings(collection: str) -> str:
        page = operator.get(reverse("console:machine", args=[collection])).content.decode()
        return " ".join(re.findall(r"<th scope=\"col\"[^>]*>([^<]*)<", page))

    world.open_breaker("helm")
    number_all()
    assert "Workstream / run Last error" in headings("tasks")
    assert "Workstream" not in headings("breakers")
    assert "Last error" not in headings("runs")


def test_a_list_names_what_a_retry_retries(operator: Client, scene: Scene) -> None:
    again = operator.post(reverse("console:retry", args=["tasks", "scene-t3"]))["Location"]
    number_all()
    made = operator.get(again).context["event"]["entity_id"]

    page = operator.get(reverse("console:machine", args=["tasks"]), {"q": made})

    assert "retry of scene-t3" in text_of(page)


def test_a_search_without_a_match_offers_to_clear_it(operator: Client, scene: Scene) -> None:
    page = operator.get(reverse("console:machine", args=["tasks"]), {"q": "run:nothing"})

    assert "Remove a word or choose another state." in text_of(page)
    assert "Clear search" in text_of(page)


def test_durations_have_their_unit() -> None:
    from statecore.machines.task import Task

    details = dict(list_details(Task(id="t", timeout_sec=90)))

    assert details["timeout"] == "90 s"
    assert "timeout sec" not in details


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"to_state": "CANCELLED"}, {"scene-t3"}),
        ({"from_state": "queued", "machine": "task"}, {"scene-t3"}),
        ({"to_state": "no such state"}, set()),
        ({"severity": "warning,critical"}, {"scene-t3"}),
    ],
)
def test_the_audit_is_filtered_by_states_and_severities(
    query: dict[str, str], found: set[str], operator: Client, scene: Scene
) -> None:
    events = operator.get(reverse("console:audit"), query).context["events"]

    assert {event["entity_id"] for event in events} == found


def test_the_inbox_counts_all_pending_requests(operator: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    from statecore.dashboard.queries import approvals

    monkeypatch.setattr(approvals, "MAX_PENDING", 2)
    asked = {"version": 1, "from_state": "queued", "to_state": "failed", "policies": ["task->failed"]}
    for number in range(3):
        approval.request(
            actor=world.operator("grace"),
            account=10**9 + number,
            expires_at=now() + timedelta(hours=1),
            entity_type="task",
            entity_id=scene.first.pk,
            reason=world.REASON,
            category="other",
            **asked,
        )
    total = Approval.objects.count()

    page = operator.get(reverse("console:approvals"))

    assert len(page.context["pending"]) == 2
    assert f"{total} pending, showing the 2 that expire first" in text_of(page)


def test_a_user_without_machines_is_not_led_to_stuck_entities(people: dict[str, Any], scene: Scene) -> None:
    client = Client()
    client.force_login(people["nobody"])

    assert 'data-nav="incidents"' not in client.get("/").content.decode()
