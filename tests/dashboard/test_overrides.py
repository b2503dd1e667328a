"""The list of overrides: its filters and the part that an open page fetches."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.dashboard.scene import Scene, number_all
from tests.support import world


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({}, {"scene-t1", "scene-t3", "scene"}),
        ({"actor": "grace"}, {"scene-t1"}),
        ({"machine": "run"}, {"scene"}),
        ({"actor": "grace", "machine": "run"}, set()),
        ({"last": "hour"}, {"scene-t1", "scene-t3", "scene"}),
        ({"machine": "no_machine"}, {"scene-t1", "scene-t3", "scene"}),
    ],
)
def test_overrides_are_filtered(
    chosen: dict[str, str], found: set[str], people: dict[str, Any], scene: Scene, client: Client
) -> None:
    world.forced(scene.first, "failed", actor=world.operator("grace"))
    world.forced(scene.run, "canceled")
    number_all()
    client.force_login(people["viewer"])
    page = client.get(reverse("console:overrides"), chosen)
    assert {event["entity_id"] for event in page.context["events"]} == found
    assert ("No such overrides" in page.content.decode()) == (not found)
    part = client.get(reverse("console:overrides"), {**chosen, "part": "list"}, headers={"HX-Request": "true"})
    assert "<html" not in part.content.decode()
    assert all(f'data-id="{event["event_id"]}"' in part.content.decode() for event in page.context["events"])
