"""Every event that a webhook selects arrives at least once and in order per entity, whatever the receiver does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from statecore.delivery.sinks.alerts import evaluate
from statecore.delivery.webhooks import subscriptions, turn
from statecore.delivery.webhooks.messages import Message
from statecore.delivery.webhooks.sender import Response
from statecore.delivery.webhooks.turn import TurnLost
from statecore.journal.position import read_extent
from statecore.kernel.clock import now
from statecore.records import Alert, Webhook, WebhookBacklog, WebhookDelivery
from statecore.records import webhook as records
from statecore.transitions.edit import edit
from tests.support import world
from tests.support.receivers import DRIP, HANG, HUGE, REDIRECT, RESET, Received, Receiver
from tests.support.sequencer import catch_up
from tests.support.webhooks import deliver, operator, subscribe

pytestmark = pytest.mark.django_db(transaction=True)
MONDAY = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(MONDAY, tick=False) as traveller:
        yield traveller


def make_events(*names: str, number: int = 3) -> None:
    """Creates runs and changes them, so that each has several events, interleaved."""
    runs = {name: world.run(id=name) for name in names}
    for change in range(1, number):
        for name, run in runs.items():
            edit(type(run), name, {"metadata": {"change": change}}, actor=world.operator())


def test_events_arrive_signed_in_order_with_position_and_epoch(receiver: Receiver) -> None:
    webhook, secret = subscriptions.subscribe(receiver.url, actor=operator(), filters={"entity_type": "run"})
    make_events("a", "b")
    world.idle_worker(id="w1")
    deliver()

    assert receiver.accepted_by_entity() == {"a": [1, 2, 3], "b": [1, 2, 3]}
    assert all(message.is_signed_with(secret) for message in receiver.received)
    assert not receiver.received[0].is_signed_with(records.make_secret())
    first = receiver.received[0].body
    assert (first["type"], first["epoch"]) == ("run_created", 1)
    assert first["timestamp"] == first["data"]["timestamp"]
    positions = [message.body["position"] for message in receiver.received]
    assert positions == sorted(positions)
    webhook.refresh_from_db()
    assert (webhook.position, webhook.status, webhook.leased_until) == (read_extent()[1], "enabled", None)
    log = [(each.status, each.attempt, each.is_delivered) for each in webhook.deliveries.order_by("pk")]
    assert log == [(204, 1, True)] * 6


def test_filters_select_by_machine_state_run_kind_severity_and_name(receiver: Receiver) -> None:
    by_filter = {
        "entity_type": "worker", "to_state": "running", "run": "r1", "kind": "override", "severity": "warning",
        "event_name": "run_running",
    }  # fmt: skip
    made = {name: subscribe(f"{receiver.url}&name={name}", **{name: value}) for name, value in by_filter.items()}
    run = world.run(id="r1")
    world.fire(run, "run_started")
    world.idle_worker(id="w1")
    world.forced(world.run(id="r2"), "failed")
    deliver()

    def find_events(name: str) -> list[str]:
        rows = made[name].deliveries.order_by("pk").values_list("entity_id", "name")
        return [f"{entity} {event}" for entity, event in rows]

    assert find_events("entity_type") == ["w1 worker_created", "w1 worker_idle"]
    assert find_events("to_state") == find_events("event_name") == ["r1 run_running"]
    assert find_events("run") == ["r1 run_created", "r1 run_running"]
    assert find_events("kind") == ["r2 manual_state_override"]
    assert find_events("severity") == ["r2 manual_state_override"]


@pytest.mark.parametrize("failure", [500, 429, HANG, DRIP, REDIRECT, RESET])
def test_every_event_arrives_in_order_once_a_failing_receiver_is_back(
    receiver: Receiver, clock: time_machine.Traveller, failure: int
) -> None:
    webhook = subscribe(receiver.url, entity_type="run")
    make_events("a", "b")
    receiver.answer = lambda message: failure
    deliver()
    webhook.refresh_from_db()
    assert (receiver.accepted, webhook.status) == ([], "failing")
    assert webhook.failures == len(receiver.received) == 2  # then it waits

    receiver.answer = lambda message: 200
    clock.shift(timedelta(minutes=1))
    make_events("c")
    deliver()
    assert receiver.accepted_by_entity() == {"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3]}
    webhook.refresh_from_db()
    assert (webhook.status, webhook.failures, WebhookBacklog.objects.count()) == ("enabled", 0, 0)


def test_a_redirect_is_not_followed_and_a_response_is_kept_in_part(receiver: Receiver) -> None:
    webhook = subscribe(receiver.url, entity_type="run")
    receiver.answer = lambda message: HUGE if message.entity == "a" else REDIRECT
    world.run(id="a")
    world.run(id="b")
    deliver()
    assert [each.answer for each in receiver.received] == [HUGE, REDIRECT]
    huge, redirect = webhook.deliveries.order_by("pk")
    assert (huge.is_delivered, len(huge.response)) == (True, records.EXCERPT_LENGTH)
    assert (redirect.is_delivered, redirect.status) == (False, 302)


def test_a_slow_receiver_costs_no_more_than_the_time_limit(receiver: Receiver) -> None:
    webhook = subscribe(receiver.url, entity_type="run")
    receiver.answer = lambda message: DRIP
    world.run(id="a")
    deliver()
    delivery = webhook.deliveries.get()
    assert 1_000 <= delivery.duration_ms < 3_000
    assert delivery.error == "no complete response within 1 s"


def test_an_entity_that_is_refused_waits_and_the_others_continue(
    receiver: Receiver, clock: time_machine.Traveller
) -> None:
    webhook = subscribe(receiver.url, entity_type="run")
    receiver.answer = lambda message: 422 if message.entity == "bad" else 200
    make_events("bad", "good")
    deliver()
    assert receiver.accepted_by_entity() == {"good": [1, 2, 3]}
    assert [each.entity for each in receiver.received].count("bad") == 1
    row = WebhookBacklog.objects.get()
    assert (row.entity_id, row.attempts) == ("bad", 1)

    clock.shift(timedelta(minutes=1))
    deliver()
    assert [each.entity for each in receiver.received].count("bad") == 2
    receiver.answer = lambda message: 200
    clock.shift(timedelta(minutes=1))
    deliver()
    assert receiver.accepted_by_entity() == {"good": [1, 2, 3], "bad": [1, 2, 3]}
    ids = {each.id for each in receiver.received if each.entity == "bad" and each.sequence == 1}
    assert len(ids) == 1  # the same in every attempt
    webhook.refresh_from_db()
    assert webhook.status == "enabled"


def test_the_backlog_is_bounded_and_nothing_new_is_begun_when_it_is_full(
    receiver: Receiver, clock: time_machine.Traveller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "MAX_WAITING", 2)
    webhook = subscribe(receiver.url, entity_type="run")
    receiver.answer = lambda message: 500
    make_events("a", "b", "c", "d", number=2)
    for _ in range(6):
        deliver()
        clock.shift(timedelta(minutes=20))
    assert {each.entity for each in receiver.received} == {"a", "b"}
    assert WebhookBacklog.objects.count() == 2

    receiver.answer = lambda message: 200
    deliver()
    assert receiver.accepted_by_entity() == {name: [1, 2] for name in "abcd"}
    webhook.refresh_from_db()
    assert webhook.position == read_extent()[1]


def test_a_dead_receiver_does_not_delay_another(receiver: Receiver) -> None:
    for number in range(5):
        subscribe(f"http://127.0.0.1:{receiver.server_port}/slow{number}", entity_type="run")
    subscribe(receiver.url, entity_type="run")
    arrived: list[float] = []

    def answer(message: Received) -> int:
        if "slow" in message.headers["path"]:
            return HANG
        arrived.append(time.monotonic())
        return 200

    receiver.answer = answer
    world.run(id="a")
    deliver()
    assert len(arrived) == 1
    assert arrived[0] - min(each.at for each in receiver.received) < 0.9  # less than one time-out


def test_a_webhook_that_fails_for_too_long_is_disabled_with_an_alert(
    receiver: Receiver, clock: time_machine.Traveller, settings
) -> None:
    settings.STATECORE_WEBHOOK_RETRY_HOURS = 1
    webhook = subscribe(receiver.url, entity_type="run")
    receiver.answer = lambda message: 500
    world.run(id="a")
    for _ in range(8):
        deliver()
        clock.shift(timedelta(minutes=16))
    webhook.refresh_from_db()
    assert webhook.status == "disabled"
    assert webhook.disabled_reason == "an event of run a was not delivered for 1 h: the receiver answered 500"
    evaluate(now())
    alert = Alert.objects.get(rule="webhook_disabled", resolved_at=None)
    assert (alert.key, alert.severity) == (webhook.pk, "error")
    assert "hunter2" not in alert.detail

    receiver.answer = lambda message: 200
    count = len(receiver.received)
    deliver()
    assert len(receiver.received) == count
    subscriptions.enable(webhook.pk, actor=operator())
    deliver()
    evaluate(now())
    assert receiver.accepted_by_entity() == {"a": [1]}
    assert not Alert.objects.filter(rule="webhook_disabled", resolved_at=None).exists()


def test_a_receiver_that_is_gone_disables_the_webhook_at_once(receiver: Receiver) -> None:
    webhook = subscribe(receiver.url, entity_type="run")
    receiver.answer = lambda message: 410
    world.run(id="a")
    deliver()
    webhook.refresh_from_db()
    assert webhook.disabled_reason == "the receiver answered 410: it no longer exists"


def test_a_webhook_that_is_far_behind_raises_an_alert(receiver: Receiver, clock: time_machine.Traveller) -> None:
    subscribe(receiver.url, entity_type="run")
    world.run(id="a")
    catch_up()
    clock.shift(timedelta(minutes=16))
    evaluate(now())
    assert Alert.objects.filter(rule="webhook_late", resolved_at=None).count() == 1
    deliver()
    evaluate(now())
    assert not Alert.objects.filter(rule="webhook_late", resolved_at=None).exists()


def test_two_secrets_sign_after_a_rotation_until_the_first_ends(receiver: Receiver) -> None:
    webhook, old = subscriptions.subscribe(receiver.url, actor=operator(), filters={"entity_type": "run"})
    webhook, new = subscriptions.rotate_secret(webhook.pk, actor=operator())
    world.run(id="a")
    deliver()
    Webhook.objects.filter(pk=webhook.pk).update(previous_until=now())
    world.run(id="b")
    deliver()
    first, second = receiver.received
    assert first.headers["webhook-signature"].count("v1,") == 2
    assert [first.is_signed_with(old), first.is_signed_with(new)] == [True, True]
    assert [second.is_signed_with(old), second.is_signed_with(new)] == [False, True]


def test_a_secret_that_cannot_be_read_disables_the_webhook(receiver: Receiver, settings) -> None:
    webhook = subscribe(receiver.url, entity_type="run")
    settings.SECRET_KEY = "another"
    world.run(id="a")
    deliver()
    webhook.refresh_from_db()
    assert "was STATECORE_SECRET_KEY changed?" in webhook.disabled_reason
    assert receiver.received == []


def test_a_replay_sends_the_same_messages_again(receiver: Receiver) -> None:
    webhook = subscribe(receiver.url, entity_type="run")
    make_events("a")
    deliver()
    after = receiver.received[0].body["position"]
    subscriptions.replay(webhook.pk, after, actor=operator())
    deliver()
    assert [each.id for each in receiver.received[3:]] == [each.id for each in receiver.received[1:3]]


def test_a_test_message_is_sent_also_if_the_webhook_is_disabled(receiver: Receiver) -> None:
    webhook = subscribe(receiver.url, entity_type="run")
    subscriptions.disable(webhook.pk, actor=operator())
    test_id = subscriptions.request_test(webhook.pk, actor=operator())
    deliver()
    (message,) = receiver.received
    assert (message.id, message.body["type"], message.body["position"]) == (test_id, "webhook_test", None)
    webhook.refresh_from_db()
    assert (webhook.test, webhook.status) == ("", "disabled")


def test_the_owner_receives_only_events_of_machines_it_may_see(receiver: Receiver) -> None:
    actor = world.operator_with("add_webhook", "view_run")
    webhook, _secret = subscriptions.subscribe(receiver.url, actor=actor)
    world.run(id="a")
    world.idle_worker(id="w1")
    deliver()
    assert {each.entity for each in receiver.received} == {"a"}

    webhook.owner.is_active = False
    webhook.owner.save()
    world.run(id="b")
    deliver()
    webhook.refresh_from_db()
    assert {each.entity for each in receiver.received} == {"a"}
    assert webhook.disabled_reason.startswith("its owner is no longer active")


def begin(webhook: Webhook) -> turn.Turn:
    mine = turn.begin(webhook.pk)
    assert mine is not None
    return mine


def test_one_process_at_a_time_has_the_turn_and_a_former_one_records_nothing(
    receiver: Receiver, clock: time_machine.Traveller
) -> None:
    webhook = subscribe(receiver.url, entity_type="run")
    make_events("a")
    catch_up()
    first = begin(webhook)
    message = first.next_message()
    assert isinstance(message, Message)
    assert turn.begin(webhook.pk) is None
    assert turn.find_due([], 10) == []

    clock.shift(turn.lease_duration())
    second = begin(webhook)
    with pytest.raises(TurnLost):
        first.record(message, Response(5, 204))
    first.end()
    assert WebhookDelivery.objects.count() == 0
    again = second.next_message()
    assert again == message
    second.record(message, Response(5, 204))
    second.end()
    webhook.refresh_from_db()
    assert webhook.position == message.position


def test_a_change_by_an_operator_ends_the_turn_but_not_its_lease(receiver: Receiver) -> None:
    webhook = subscribe(receiver.url, entity_type="run")
    make_events("a")
    catch_up()
    mine = begin(webhook)
    message = mine.next_message()
    assert message is not None
    subscriptions.change(webhook.pk, {"description": "ours"}, actor=operator())
    assert turn.begin(webhook.pk) is None  # an attempt may be in progress
    with pytest.raises(TurnLost):
        mine.record(message, Response(5, 204))
    mine.end()
    assert begin(webhook).next_message() == message


def test_old_deliveries_are_deleted(receiver: Receiver, clock: time_machine.Traveller, monkeypatch, settings) -> None:
    webhook = subscribe(receiver.url, entity_type="run")
    make_events("a", number=5)
    deliver()
    monkeypatch.setattr(records, "LOG_LIMIT", 3)
    assert records.forget() == 2
    clock.shift(timedelta(days=settings.STATECORE_WEBHOOK_LOG_DAYS))
    assert records.forget() == 3
    assert not webhook.deliveries.exists()


def test_logs_have_no_url(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    subscribe(receiver.url, entity_type="run")
    receiver.answer = lambda message: 500
    world.run(id="a")
    deliver()
    assert "webhook_not_delivered" in caplog.text
    assert "hunter2" not in caplog.text
