"""Webhooks over REST: the secret is shown once, operators manage them, owners decide what is sent where."""

from __future__ import annotations

from typing import Any

import pytest

from statecore.journal import Event
from statecore.journal.position import read_extent
from statecore.records import Webhook
from tests.api.callers import Caller, expect_ok, expect_refusal, member
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db
BODY = {"url": "https://example.com/hook/hunter2", "filter": {"entity_type": "task", "to_state": ["failed"]}}


def subscribe(caller: Caller, **more: Any) -> dict[str, Any]:
    return dict(expect_ok(caller.post("webhooks/", {**BODY, **more}), 201))


def test_a_webhook_is_created_with_a_secret_that_is_shown_once() -> None:
    ada, key = Caller("operate"), {"Idempotency-Key": "once"}
    first = expect_ok(ada.post("webhooks/", BODY, **key), 201)
    assert first["secret"].startswith("whsec_")
    assert (first["status"], first["owner"]) == ("enabled", ada.user.username)
    assert first["filter"] == {"entity_type": ["task"], "to_state": ["failed"]}
    again = ada.post("webhooks/", BODY, **key)
    assert (again.json(), again["Idempotent-Replayed"]) == ({**first, "secret": None}, "true")
    shown = expect_ok(ada.get(f"webhooks/{first['id']}/"))
    assert "secret" not in shown
    assert expect_ok(ada.get("webhooks/"))["results"] == [shown]
    row = Webhook.objects.get()
    assert first["secret"] not in (row.secret, row.previous_secret)
    assert not Event.objects.filter(body__contains="hunter2").exists()  # the account journal has the host alone
    assert Event.objects.filter(trigger="webhook_created").count() == 1


def test_a_webhook_is_changed_rotated_disabled_enabled_and_deleted() -> None:
    ada = Caller("operate")
    made = subscribe(ada)
    place = f"webhooks/{made['id']}/"
    changed = expect_ok(ada.patch(place, {"description": "ours", "filter": {}}))
    assert (changed["description"], changed["filter"], changed["url"]) == ("ours", {}, BODY["url"])
    rotated = expect_ok(ada.post(f"{place}rotate-secret/", {}))
    assert rotated["secret"] != made["secret"]
    assert rotated["previous_secret_until"] is not None
    disabled = expect_ok(ada.post(f"{place}disable/", {"reason": "moving"}))
    assert (disabled["status"], disabled["disabled_by"]) == ("disabled", ada.user.username)
    expect_refusal(ada.post(f"{place}disable/", {}), 409, "already_in_state")
    assert expect_ok(ada.post(f"{place}enable/", {}))["status"] == "enabled"
    assert expect_ok(ada.post(f"{place}test/", {}), 202)["message_id"].startswith("test_")
    assert ada.delete(place).status_code == 204
    expect_refusal(ada.get(place), 404, "not_found")


@pytest.mark.django_db(transaction=True)
def test_replay_takes_a_position_of_the_journal() -> None:
    ada = Caller("operate")
    made = subscribe(ada)
    catch_up()
    place = f"webhooks/{made['id']}/replay/"
    assert expect_ok(ada.post(place, {"after": 0}), 202)["position"] == 0
    assert expect_ok(ada.post(place, {"after": 10**9}), 202)["position"] == read_extent()[1]
    assert expect_refusal(ada.post(place, {"after": -1}), 400, "invalid")["errors"].keys() == {"after"}


@pytest.mark.parametrize(
    ("field", "more"),
    [
        ("url", {"url": "https://10.0.0.1/"}),
        ("url", {"url": "https://u:p@example.com/"}),
        ("filter.colour", {"filter": {"colour": "red"}}),
        ("filter.entity_type", {"filter": {"entity_type": "tusk"}}),
        ("filter.to_state", {"filter": {"entity_type": "run", "to_state": "blocked!"}}),
        ("filter.run", {"filter": {"run": []}}),
        ("filter.run", {"filter": {"run": [5]}}),
        ("description", {"description": "x" * 300}),
    ],
)
def test_wrong_fields_are_refused_by_name(field: str, more: dict[str, Any]) -> None:
    refusal = expect_refusal(Caller("operate").post("webhooks/", {**BODY, **more}), 400, "invalid")
    assert list(refusal["errors"]) == [field]


def test_only_operators_use_webhooks_and_only_the_owner_redirects_them() -> None:
    ada = Caller("operate")
    made = subscribe(ada)
    place = f"webhooks/{made['id']}/"
    viewer = Caller("read", user=member("vera"))
    expect_refusal(viewer.get(place), 403, "permission_denied")
    expect_refusal(viewer.get(f"{place}deliveries/"), 403, "permission_denied")
    for caller in (viewer, Caller("agent")):
        expect_refusal(caller.post("webhooks/", BODY), 403, "permission_denied")
    other = Caller("operate", user=member("olga", "operator"))
    for refused in (
        other.patch(place, {"url": "https://evil.example/"}),
        other.patch(place, {"filter": {}}),
        other.post(f"{place}rotate-secret/", {}),
    ):
        assert expect_refusal(refused, 403, "permission_denied")["required"] == "owner"
    assert expect_ok(other.patch(place, {"description": "by olga"}))["description"] == "by olga"
    assert expect_ok(other.post(f"{place}disable/", {}))["status"] == "disabled"
