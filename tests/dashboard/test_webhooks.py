"""The pages of webhooks: list, creation with the secret shown once, the log, and the actions."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from statecore.kernel.clock import now
from statecore.records import Webhook, WebhookDelivery
from tests.api.callers import member

pytestmark = pytest.mark.django_db


def log_in(group: str = "operator", name: str = "olga") -> Client:
    client = Client()
    client.force_login(member(name, group))
    return client


def create(client: Client, **fields: str) -> tuple[Webhook, str]:
    given = {"url": "https://ci.example.com/hook", "entity_type": "task", "to_state": "failed, completed", **fields}
    page = client.post(reverse("console:webhooks"), given)
    assert page.status_code == 200, page.content
    return Webhook.objects.latest("created_at"), page.content.decode()


def act(client: Client, webhook: Webhook, action: str, **fields: str) -> str:
    url = reverse("console:webhook_action", args=[webhook.pk, action])
    return client.post(url, fields, follow=True).content.decode()


def test_a_webhook_is_created_and_its_secret_is_shown_once() -> None:
    client = log_in()
    webhook, page = create(client)
    secret = webhook.read_secrets(now())[0]
    assert webhook.filter == {"entity_type": ["task"], "to_state": ["failed", "completed"]}
    assert secret in page
    listed = client.get(reverse("console:webhooks")).content.decode()
    assert "ci.example.com" in listed
    assert "entity_type: task, to_state: failed or completed" in listed
    assert secret not in listed + client.get(reverse("console:webhook", args=[webhook.pk])).content.decode()


def test_a_refused_url_keeps_what_was_typed() -> None:
    page = log_in().post(reverse("console:webhooks"), {"url": "https://10.0.0.1/", "description": "my chat"})
    assert page.status_code == 422
    assert "not public" in page.content.decode()
    assert "my chat" in page.content.decode()


def test_the_actions_of_the_page() -> None:
    client = log_in()
    webhook, _page = create(client)
    old = webhook.read_secrets(now())[0]
    assert "Disabled by olga" in act(client, webhook, "disable", reason="moving")
    assert "Enabled." in act(client, webhook, "enable")
    assert "Sending a test message" in act(client, webhook, "test")
    assert "position 0 again" in act(client, webhook, "replay", after="0")
    assert "must be a position" in act(client, webhook, "replay", after="x")
    page = act(client, webhook, "rotate")
    webhook.refresh_from_db()
    new = webhook.read_secrets(now())[0]
    assert new != old
    assert new in page
    assert act(log_in("operator", "otto"), webhook, "rotate").count("belongs to olga") == 1
    assert "Deleted the webhook" in act(client, webhook, "delete")
    assert client.get(reverse("console:webhook", args=[webhook.pk])).status_code == 404


def test_the_log_shows_answers_of_the_receiver_as_text() -> None:
    client = log_in()
    webhook, _page = create(client)
    for number in range(51):
        WebhookDelivery.objects.create(
            webhook=webhook, message_id=f"m{number}", name="task_failed", position=number, attempt=1, at=now(),
            duration_ms=12, status=500 if number == 50 else 200, is_delivered=number != 50,
            response="<script>alert(1)</script>",
        )  # fmt: skip
    url = reverse("console:webhook", args=[webhook.pk])
    page = client.get(url).content.decode()
    assert "&lt;script&gt;" in page
    assert "<script>alert" not in page
    assert 'rel="next"' in page
    failed = client.get(f"{url}?failed=1").content.decode()
    assert failed.count("task_failed") == 1


def test_viewers_have_no_access() -> None:
    webhook, _page = create(log_in())
    viewer = log_in("viewer", "vera")
    assert viewer.get(reverse("console:webhooks")).status_code == 403
    assert viewer.get(reverse("console:webhook", args=[webhook.pk])).status_code == 403
    assert viewer.post(reverse("console:webhook_action", args=[webhook.pk, "test"])).status_code == 403
