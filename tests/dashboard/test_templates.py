"""The pages of plan templates: the list, a version, and the forms that store a template and its next version."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from statecore.records import Phase, PlanTemplate
from tests.dashboard.scene import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.once_on("postgres")]
PLAN = {"phase": "PH", "workstreams": [{"id": "w", "tasks": [{"id": "t", "payload": {"of": "${name}"}}]}]}
FORM = {
    "id": "nightly", "description": "every night", "plan": json.dumps(PLAN),
    "parameters": '{"name": {"type": "string"}}',
}  # fmt: skip


@pytest.fixture
def operator(client: Client, people: dict[str, Any], scene: Scene) -> Client:
    Phase.objects.get_or_create(id="PH")
    client.force_login(people["operator"])
    return client


def page(client: Client, query: str = "") -> str:
    return client.get(reverse("console:template", args=["nightly"]) + query).content.decode()


def test_an_operator_stores_a_template_and_its_next_version(operator: Client) -> None:
    empty = operator.get(reverse("console:templates")).content.decode()
    assert "No templates" in empty
    assert "${branch}" in empty
    assert operator.post(reverse("console:templates"), FORM).status_code == 302
    assert "every night" in operator.get(reverse("console:templates")).content.decode()
    changed = {**FORM, "description": "twice a night"}
    assert operator.post(reverse("console:template", args=["nightly"]), changed).status_code == 302
    assert PlanTemplate.objects.filter(template="nightly", plan=PLAN).count() == 2
    assert "version 2" in page(operator)
    assert "version 1" in page(operator, "?version=1")
    assert operator.get(reverse("console:template", args=["nightly"]), {"version": "7"}).status_code == 404


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "no spaces"}, "must be 1 to 64"),
        ({"plan": "{"}, "is not JSON"),
        ({"plan": "[" * 100_000}, "must be a JSON object"),
        ({"plan": '{"phase": "PH", "workstreams": [{"id": "w", "tasks": []}]}'}, "workstreams"),
        ({"parameters": "{}"}, "name is used in the plan but not declared"),
        ({"parameters": '{"name": {"type": "colour"}}'}, "must be an object with a type"),
    ],
)
def test_a_refused_form_shows_the_error_at_the_field_and_keeps_what_was_typed(
    operator: Client, change: dict[str, str], message: str
) -> None:
    answer = operator.post(reverse("console:templates"), {**FORM, **change})
    text = answer.content.decode()
    assert answer.status_code == 422
    errors = [part.partition("</span>")[0] for part in text.split('<span class="hint tone-failed" role="alert">')[1:]]
    assert [each for each in errors if message in each]
    assert "every night" in text
    assert not PlanTemplate.objects.exists()


def test_a_viewer_sees_the_plan_and_no_form(operator: Client, people: dict[str, Any]) -> None:
    operator.post(reverse("console:templates"), FORM)
    operator.force_login(people["viewer"])
    assert "${name}" in page(operator)
    assert "<textarea" not in page(operator)
    assert operator.post(reverse("console:templates"), FORM).status_code == 403
