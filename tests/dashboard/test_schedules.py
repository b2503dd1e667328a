"""The pages of schedules: create, change, pause, resume, run now, and the history."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from statecore.records import Phase, Schedule
from statecore.scheduling import occurrences, templates
from tests.dashboard.scene import Scene
from tests.support import world

pytestmark = [pytest.mark.django_db, pytest.mark.once_on("postgres")]
PLAN = {"phase": "PH", "workstreams": [{"id": "w", "tasks": [{"id": "t", "payload": {"of": "${name}"}}]}]}
FORM = {
    "id": "nightly-build", "template": "nightly", "cron": "0 2 * * *", "timezone": "Europe/Berlin",
    "parameters": '{"name": "x"}', "catch_up": "latest", "overlap": "skip", "not_after": "",
}  # fmt: skip


@pytest.fixture
def operator(client: Client, people: dict[str, Any], scene: Scene) -> Client:
    Phase.objects.get_or_create(id="PH")
    templates.store("nightly", plan=PLAN, parameters={"name": {"type": "string"}}, actor=world.operator())
    client.force_login(people["operator"])
    return client


def page(client: Client) -> str:
    return client.get(reverse("console:schedule", args=["nightly-build"])).content.decode()


def test_an_operator_creates_changes_pauses_and_runs_a_schedule(operator: Client) -> None:
    assert "No schedules" in operator.get(reverse("console:schedules")).content.decode()
    assert operator.post(reverse("console:schedules"), FORM).status_code == 302
    text = page(operator)
    assert text.count('data-format="local"') == 5
    changed = {**FORM, "cron": "0 3 * * *", "not_after": "2099-01-01T00:00Z"}
    assert operator.post(reverse("console:schedule", args=["nightly-build"]), changed).status_code == 302
    assert Schedule.objects.get().cron == "0 3 * * *"
    for action, body, shown in (
        ("pause", {"reason": "the disk is full"}, "the disk is full"),
        ("resume", {"reason": "space again"}, "Next times"),
        ("run", {}, "due"),
    ):
        answer = operator.post(reverse(f"console:{action}_schedule", args=["nightly-build"]), body)
        assert answer.status_code == 302
        assert shown in page(operator)
    assert occurrences.run_due() == 1
    assert "nightly-build-" in page(operator)
    assert "submitted" in operator.get(reverse("console:schedules")).content.decode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cron": "soon"}, "must have five parts"),
        ({"parameters": "{"}, "must be a JSON object"),
        ({"not_after": "2099-01-01T00:00"}, "must have a time zone"),
        ({"parameters": "{}"}, "is required"),
        ({"parameters": "[" * 100_000}, "must be a JSON object"),
        ({"parameters": '{"\\ud800": 1}'}, "must be plain JSON"),
        ({"not_after": "0001-01-01T00:00+14:00"}, "is out of range"),
    ],
)
def test_a_refused_form_keeps_what_was_typed(operator: Client, change: dict[str, str], message: str) -> None:
    answer = operator.post(reverse("console:schedules"), {**FORM, **change})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert message in text
    assert "nightly-build" in text


def test_a_viewer_sees_no_forms(operator: Client, people: dict[str, Any]) -> None:
    operator.post(reverse("console:schedules"), FORM)
    operator.force_login(people["viewer"])
    assert 'name="cron"' not in page(operator)
    assert operator.post(reverse("console:schedules"), FORM).status_code == 403
