"""Buttons name the action that the user wants; the words come from the declared transitions."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from statecore.dashboard import labels
from statecore.kernel import registry
from statecore.kernel.actors import Kind
from statecore.operations.incidents import sweep
from statecore.records import Incident
from tests.dashboard.scene import Scene
from tests.support import world


@pytest.mark.parametrize(
    ("machine", "trigger", "state", "label"),
    [
        ("task", "user_cancelled", "running", "Cancel task"),
        ("run", "run_canceled", "running", "Cancel run"),
        ("workstream", "workstream_skipped", "ready", "Skip workstream"),
        ("worker", "shutdown_requested", "idle", "Shut down worker"),
        ("uet_worker", "shutdown_requested", "BUSY", "Drain UET worker"),
        ("agent_job", "job_requeued", "failed", "Requeue agent job"),
        ("agent_job", "job_retry_scheduled", "failed", "Schedule retry"),
        ("patch_ledger", "policy_violated", "validated", "Quarantine patch"),
        ("patch_ledger", "rollback_requested", "committed", "Roll back patch"),
    ],
)
def test_a_button_is_the_verb_of_the_transition_and_its_object(
    machine: str, trigger: str, state: str, label: str
) -> None:
    assert labels.action_label(registry.flow(machine), trigger, state) == label


def test_a_button_for_many_names_their_number() -> None:
    assert labels.action_label(registry.flow("task"), "user_cancelled", count=200) == "Cancel 200 tasks"
    assert labels.action_label(registry.flow("task"), "user_cancelled", count=1) == "Cancel 1 task"
    assert labels.action_label(registry.flow("agent_job"), "job_retry_scheduled", count=3) == (
        "Schedule retry for 3 agent jobs"
    )


def test_every_trigger_of_an_operator_has_a_label_without_underscores() -> None:
    for flow in registry.flows():
        for each in flow.transitions:
            if Kind.OPERATOR in each.actors:
                for state in each.sources:
                    label = labels.action_label(flow, each.trigger, state)
                    assert label[0].isupper()
                    assert "_" not in label


def test_a_wrong_state_is_explained_in_words(people: dict[str, Any], scene: Scene, client: Client) -> None:
    client.force_login(people["operator"])
    place = reverse("console:transition", args=["workstreams", "scene-w", "workstream_skipped"])
    world.forced(scene.first.workstream, "validating")

    answer = client.post(place)

    assert answer.status_code == 409
    assert "Can&#x27;t skip a validating workstream." in answer.content.decode()


def test_an_incident_links_the_actions_that_apply(people: dict[str, Any], scene: Scene, client: Client) -> None:
    workstream = world.forced(world.workstream(id="halted"), "ready")
    world.forced(world.task(id="halted-t1", workstream=workstream), "failed")
    sweep()
    place = reverse("console:incident", args=[Incident.objects.get(key="task halted-t1").pk])
    client.force_login(people["operator"])

    assert client.get(place).context["actions"] == [
        ("Retry task", "Retry task halted-t1", reverse("console:retry", args=["tasks", "halted-t1"])),
        *(
            (label, f"{label} halted", reverse("console:transition", args=["workstreams", "halted", trigger]))
            for label, trigger in (
                ("Skip workstream", "workstream_skipped"),
                ("Cancel workstream", "workstream_cancelled"),
            )
        ),
    ]
    client.force_login(people["viewer"])
    assert not client.get(place).context["actions"]
