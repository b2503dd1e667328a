"""The proof of an event as a file, from its receipt and from the entity's page."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client
from django.urls import reverse

from statecore.delivery.sinks.sink import read_batch
from statecore.delivery.sinks.tree import Tree
from statecore.journal import Event
from statecore.kernel.clock import now
from tests.dashboard.scene import Scene


def log_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def last_event(scene: Scene) -> Event:
    return Event.objects.filter(entity_type="task").order_by("-event_id")[0]


def sign_numbered_events() -> None:
    """Without the sequencer: the scene has numbered its events, which no transaction has committed."""
    tree = Tree()
    tree.deliver(read_batch(tree.recover(0), 10_000))
    tree.tick(now())


def test_a_receipt_offers_the_proof_as_a_file(people: dict[str, Any], scene: Scene) -> None:
    sign_numbered_events()
    event, client = last_event(scene), log_in(people["viewer"])
    url = reverse("console:proof_file", args=[event.event_id])

    assert url in client.get(reverse("console:receipt", args=[event.event_id])).content.decode()
    response = client.get(url)

    assert response["Content-Disposition"] == f'attachment; filename="proof-{event.event_id}.json"'
    assert json.loads(response.content)["body"] == event.body


def test_the_verified_history_of_an_entity_offers_the_proof(people: dict[str, Any], scene: Scene) -> None:
    event, client = last_event(scene), log_in(people["viewer"])

    page = client.get(reverse("console:proof", args=["tasks", event.entity_id])).content.decode()

    last = Event.objects.filter(entity_id=event.entity_id).order_by("-sequence")[0]
    assert reverse("console:proof_file", args=[last.event_id]) in page


def test_an_event_without_a_signed_checkpoint_leads_back_to_its_receipt(people: dict[str, Any], scene: Scene) -> None:
    event = last_event(scene)

    response = log_in(people["viewer"]).get(reverse("console:proof_file", args=[event.event_id]), follow=True)

    assert response.redirect_chain == [(reverse("console:receipt", args=[event.event_id]), 302)]
    assert "no signed proof yet" in response.content.decode()


def test_an_account_without_a_group_gets_no_proof(people: dict[str, Any], scene: Scene) -> None:
    url = reverse("console:proof_file", args=[last_event(scene).event_id])

    assert log_in(people["nobody"]).get(url).status_code == 403
