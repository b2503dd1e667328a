"""`statecore webhook` on the command line."""

from __future__ import annotations

from statecore.records import Webhook
from tests.cli.process import Statecore


def test_a_webhook_is_created_listed_changed_and_deleted(statecore: Statecore) -> None:
    words = ("webhook", "create", "https://example.com/hook", "--filter", "entity_type=task")
    made = statecore(*words, "--filter", "to_state=failed,completed", "--description", "chat")
    webhook = Webhook.objects.get()
    assert webhook.filter == {"entity_type": ["task"], "to_state": ["failed", "completed"]}
    webhook_id, secret = made.out.splitlines()
    assert webhook_id == webhook.pk
    assert secret.startswith("whsec_")
    assert "not shown again" in made.err
    (listed,) = statecore("webhook", "list", "--json").json
    assert (listed["id"], listed["status"], "secret" in listed) == (webhook.pk, "enabled", False)
    assert "moving" in statecore("webhook", "disable", webhook.pk, "--reason", "moving").out
    assert "disabled" in statecore("webhook", "list").out
    assert "enabled" in statecore("webhook", "enable", webhook.pk).out
    assert secret not in statecore("webhook", "rotate", webhook.pk).out
    assert statecore("webhook", "replay", webhook.pk, "--after", "0", "--json").json[0]["position"] == 0
    assert statecore("webhook", "log", webhook.pk).out == "no deliveries\n"
    statecore("webhook", "delete", webhook.pk)
    assert statecore("webhook", "list").out == "no webhooks\n"


def test_wrong_arguments_are_refused(statecore: Statecore) -> None:
    assert "not public" in statecore("webhook", "create", "https://10.0.0.1/", code=6).err
    assert "NAME=VALUE" in statecore("webhook", "create", "https://example.com/", "--filter", "task", code=2).err
    assert "no webhook" in statecore("webhook", "show", "webhook_none", code=5).err
