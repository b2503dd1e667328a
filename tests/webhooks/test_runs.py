"""The webhook of a plan: one message at the end of its run, with outcome and counts."""

from __future__ import annotations

from typing import Any

import pytest

from statecore import scheduling
from statecore.kernel.refusals import Invalid
from statecore.records import Webhook
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.support import world
from tests.support.receivers import Receiver
from tests.support.webhooks import deliver

pytestmark = pytest.mark.django_db(transaction=True)


def plan(url: object, **more: Any) -> dict[str, Any]:
    streams = [{"id": "w", "tasks": [{"id": "t1"}, {"id": "t2"}]}]
    return {"id": "r1", "phase": world.phase().pk, "workstreams": streams, "start": True, "webhook": url, **more}


def test_a_plan_gets_one_message_at_the_end_of_its_run(receiver: Receiver) -> None:
    ada = Caller("operate")
    submitted = expect_ok(ada.post("runs/submit/", plan(receiver.url)), 201)
    secret = submitted["webhook"]["secret"]
    deliver()
    assert receiver.received == []

    world.fire(world.model("Run").objects.get(pk="r1"), "run_canceled", actor=world.operator())
    deliver()
    deliver()
    (message,) = receiver.received
    assert message.is_signed_with(secret)
    data = message.body["data"]
    assert (message.body["type"], data["outcome"], data["run"]["id"]) == ("run_ended", "canceled", "r1")
    assert data["counts"] == {"workstreams": {"cancelled": 1}, "tasks": {"cancelled": 2}, "gates": {}}
    assert data["event"]["to_state"] == "canceled"
    assert message.body["position"] > 0
    shown = expect_ok(ada.get("webhooks/?run=r1"))["results"][0]
    assert (shown["id"], shown["status"]) == (submitted["webhook"]["id"], "finished")
    assert expect_ok(ada.get("webhooks/"))["results"] == []


def test_the_secret_of_a_plan_is_not_repeated(receiver: Receiver) -> None:
    ada, key = Caller("operate"), {"Idempotency-Key": "once"}
    body = plan(receiver.url)
    first = expect_ok(ada.post("runs/submit/", body, **key), 201)
    again = ada.post("runs/submit/", body, **key).json()
    assert again["webhook"] == {"id": first["webhook"]["id"]}
    assert Webhook.objects.count() == 1


def test_an_agent_uses_only_hosts_that_an_operator_has_allowed(receiver: Receiver, settings: Any) -> None:
    agent = Caller("agent")
    refusal = expect_refusal(agent.post("runs/submit/", plan(receiver.url)), 400, "invalid")
    assert "STATECORE_AGENT_WEBHOOK_HOSTS" in refusal["errors"]["webhook"][0]
    settings.STATECORE_AGENT_WEBHOOK_HOSTS = ["127.0.0.*"]
    assert expect_ok(agent.post("runs/submit/", plan(receiver.url)), 201)["webhook"]["secret"]
    assert Webhook.objects.get().owner == agent.user


@pytest.mark.parametrize("url", [5, "", "http://10.0.0.1/", "https://x:y@example.com/"])
def test_a_plan_with_a_wrong_webhook_is_refused_whole(url: object) -> None:
    with pytest.raises(Invalid) as refused:
        scheduling.submit_plan(plan(url), actor=world.operator())
    assert list(refused.value.facts["errors"]) == ["webhook"]
    assert not world.model("Run").objects.exists()
