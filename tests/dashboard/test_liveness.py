"""The console shows last contact, lease and progress of everything that works."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from statecore.dashboard.queries.liveness import read_liveness
from statecore.kernel import registry
from statecore.kernel.clock import now
from tests.liveness.cases import CASES
from tests.support import world

pytestmark = pytest.mark.django_db
HOLDS = {case.name: case.hold for case in CASES} | {
    "test_gate": lambda: world.fire(world.gate(), "gate_started", actor=world.INTEGRATOR)
}


@pytest.fixture
def viewer(people: dict[str, Any], client: Client) -> Client:
    cache.clear()
    client.force_login(people["viewer"])
    return client


def test_every_machine_with_heartbeats_is_tested() -> None:
    machines = (flow for flow in registry.flows() if flow.model._meta.app_label != "toy")
    assert HOLDS.keys() == {flow.entity_type for flow in machines if flow.renewed_in}


@pytest.mark.parametrize("name", HOLDS)
def test_the_page_of_a_working_entity_shows_contact_and_progress(name: str, viewer: Client) -> None:
    entity = HOLDS[name]()
    progress = {"fraction": 0.4, "detail": "40 of 100 files", "at": "2026-01-05T12:00:00.000000Z"}
    world.touched(entity, progress=progress, last_heartbeat=now())
    args = [entity.flow.collection, entity.pk]

    for page in (reverse("console:entity", args=args), reverse("console:liveness", args=args)):
        content = viewer.get(page).content.decode()
        assert [each for each in ("Last contact", "40 %", "40 of 100 files") if each not in content] == [], page
    late = read_liveness(entity, now() + timedelta(days=2))
    assert late is not None
    assert late.is_late or late.lease_ends_at is None


def test_a_contact_in_the_future_is_shown_as_a_wrong_clock(viewer: Client) -> None:
    task = world.running_task()
    world.touched(task, last_heartbeat=now() + timedelta(hours=2))

    content = viewer.get(reverse("console:liveness", args=["tasks", task.pk])).content.decode()
    assert "ahead of the server" in content


def test_an_entity_that_is_not_worked_on_has_no_heartbeats(viewer: Client) -> None:
    task = world.queued_task()

    assert viewer.get(reverse("console:liveness", args=["tasks", task.pk])).status_code == 204
    assert "Last contact" not in viewer.get(reverse("console:entity", args=["tasks", task.pk])).content.decode()


def test_the_page_of_a_run_lists_what_is_worked_on(viewer: Client) -> None:
    task = world.running_task()
    world.touched(task, progress={"fraction": 0.5, "detail": "half way", "at": "2026-01-05T12:00:00.000000Z"})

    for page in (reverse("console:run", args=[task.run_id]), reverse("console:run_working", args=[task.run_id])):
        content = viewer.get(page).content.decode()
        assert [each for each in (task.pk, "50 %", "half way") if each not in content] == []
