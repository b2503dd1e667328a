"""A repeated request with the same key is one change and one answer."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine

from statecore import transitions
from statecore.journal import Event, IdempotencyRecord, expire_idempotency_records
from statecore.kernel.actors import Actor, Channel
from statecore.kernel.refusals import IdempotencyMismatch, Invalid, Refusal
from statecore.transitions import RequestKey
from tests.machines import worlds
from tests.support import world
from tests.support.world import AGENT, events_of, fire, operator, trace

pytestmark = pytest.mark.django_db

KEY = RequestKey("k-1", "POST runs/r/transitions/", "a" * 64)


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with worlds.fixed_clock() as traveller:
        yield traveller


def start(run, request: RequestKey | None = KEY, actor: Actor = AGENT, **more) -> transitions.Outcome:
    return transitions.transition(type(run), run.pk, "run_started", actor=actor, request=request, **more)


def test_a_replay_gets_the_same_answer_and_changes_nothing() -> None:
    run = world.run()
    first = start(run)
    before = trace(run)
    again = start(run)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.as_dict() == first.as_dict()
    assert trace(run) == before


def test_a_replay_gets_the_answer_of_then_not_of_now() -> None:
    run = world.run()
    first = start(run).as_dict()
    fire(run, "run_canceled", actor=operator())
    assert start(run).as_dict() == first
    assert first["entity"]["state"] == "running"


def test_without_a_key_a_repeat_is_a_conflict() -> None:
    run = world.run()
    start(run, None)
    with pytest.raises(Refusal) as refused:
        start(run, None)
    assert refused.value.code == "already_in_state"
    assert IdempotencyRecord.objects.count() == 0


def test_a_repeated_creation_makes_one_entity() -> None:
    def register() -> transitions.Outcome:
        return transitions.create(world.model("Worker"), actor=AGENT, request=KEY, capabilities=["git"])

    assert register().as_dict() == register().as_dict()
    assert world.model("Worker").objects.count() == 1
    assert Event.objects.count() == 1


def test_a_repeated_override_is_one_event() -> None:
    run = world.run()

    def force() -> transitions.Outcome:
        return transitions.override(
            type(run), run.pk, "running", actor=operator(), reason=world.REASON, category="stuck", request=KEY
        )

    assert force().as_dict() == force().as_dict()
    assert len(events_of(run)) == 2


def test_a_repeated_retry_makes_one_successor() -> None:
    task = world.forced(world.task(), "failed")

    def again() -> transitions.Outcome:
        return transitions.retry(type(task), task.pk, actor=operator(), request=KEY)

    assert again().as_dict() == again().as_dict()
    assert type(task).objects.filter(retry_of=task.pk).count() == 1


@pytest.mark.parametrize(
    "other",
    [
        RequestKey("k-1", "POST runs/r/transitions/", "b" * 64),
        RequestKey("k-1", "POST runs/r/override/", "a" * 64),
    ],
    ids=["another body", "another endpoint"],
)
def test_the_same_key_for_another_request_is_refused(other) -> None:
    run, second = world.run(), world.run()
    start(run)
    before = trace(second)
    with pytest.raises(IdempotencyMismatch) as refused:
        start(second, other)
    assert (refused.value.code, refused.value.status) == ("idempotency_mismatch", 422)
    assert trace(second) == before


def test_another_key_is_another_request() -> None:
    run = world.run()
    start(run)
    with pytest.raises(Refusal) as refused:
        start(run, RequestKey("k-2", KEY.endpoint, KEY.body_hash))
    assert refused.value.code == "already_in_state"


def test_another_actors_key_is_another_request() -> None:
    first, second = world.run(), world.run()
    start(first)
    outcome = start(second, actor=Actor.agent("agent-8"))
    assert (outcome.replayed, outcome.entity.state) == (False, "running")
    assert IdempotencyRecord.objects.count() == 2


def test_an_operator_and_an_agent_of_the_same_name_are_two_actors() -> None:
    first, second = world.run(), world.run()
    start(first, actor=Actor.agent("ada"))
    assert not start(second, actor=operator("ada")).replayed


def test_a_refusal_is_not_remembered() -> None:
    task = world.task()
    other = world.task(workstream=task.workstream)
    world.link(task, "depends_on", other)

    def queue() -> transitions.Outcome:
        return transitions.transition(type(task), task.pk, "scheduler_assigned", actor=world.THE_SYSTEM, request=KEY)

    with pytest.raises(Refusal):
        queue()
    assert IdempotencyRecord.objects.count() == 0
    world.forced(other, "completed")
    assert queue().changed


def test_a_dry_run_is_not_remembered() -> None:
    run = world.run()
    start(run, dry_run=True)
    assert IdempotencyRecord.objects.count() == 0
    assert start(run).replayed is False


def test_a_no_op_is_remembered_too() -> None:
    job = fire(world.created("IngestionJob"), "start", actor=AGENT)

    def again() -> transitions.Outcome:
        return transitions.transition(type(job), job.pk, "start", actor=AGENT, request=KEY)

    assert again().as_dict() == again().as_dict()
    assert again().as_dict()["changed"] is False


def test_a_stale_version_is_forgiven_to_a_replay() -> None:
    run = world.run()
    first = start(run, expected_version=1)
    assert start(run, expected_version=1).as_dict() == first.as_dict()


def test_an_answer_is_kept_for_a_day(clock) -> None:
    run = world.run()
    start(run)
    clock.shift(timedelta(hours=23, minutes=59))
    assert start(run).replayed


def test_an_expired_answer_is_forgotten(clock) -> None:
    run = world.run()
    start(run)
    clock.shift(timedelta(hours=24))
    with pytest.raises(Refusal) as refused:
        start(run)
    assert refused.value.code == "already_in_state"


def test_an_expired_key_may_be_used_for_something_else(clock) -> None:
    start(world.run())
    clock.shift(timedelta(hours=25))
    assert start(world.run(), RequestKey("k-1", "elsewhere", "c" * 64)).changed


def test_how_long_an_answer_is_kept_is_a_setting(clock, settings) -> None:
    settings.STATECORE_IDEMPOTENCY_SECONDS = 60
    run = world.run()
    start(run)
    clock.shift(timedelta(seconds=61))
    with pytest.raises(Refusal):
        start(run)


def test_expired_answers_are_cleared_away(clock) -> None:
    start(world.run())
    clock.shift(timedelta(hours=12))
    start(world.run(), RequestKey("k-2", "elsewhere", "c" * 64))
    clock.shift(timedelta(hours=13))
    assert expire_idempotency_records() == 1
    assert IdempotencyRecord.objects.get().key == "k-2"


def test_expired_answers_go_oldest_first_and_in_bounded_statements(clock, django_assert_num_queries) -> None:
    for number in range(5):
        start(world.run(), RequestKey(f"k-{number}", "elsewhere", "c" * 64))
        clock.shift(timedelta(minutes=1))
    clock.shift(timedelta(days=1))

    with django_assert_num_queries(2):
        assert expire_idempotency_records(limit=3) == 3
    assert set(IdempotencyRecord.objects.values_list("key", flat=True)) == {"k-3", "k-4"}
    assert expire_idempotency_records() == 2


@pytest.mark.parametrize("key", ["", "x" * 201, "a\0b"])
def test_a_key_is_1_to_200_characters(key) -> None:
    with pytest.raises(Invalid):
        RequestKey(key, "endpoint", "a" * 64)


@pytest.mark.parametrize("key", ["x" * 200, "läuft", "a b", "🚦"])
def test_a_key_may_be_any_other_text(key) -> None:
    run = world.run()
    start(run, RequestKey(key, "endpoint", "a" * 64))
    assert start(run, RequestKey(key, "endpoint", "a" * 64)).replayed


def test_an_answer_holds_whatever_a_reason_may_say() -> None:
    run = world.run()
    first = start(run, reason='tab\t, "quote", 完了, \\u0000')
    assert start(run).as_dict() == first.as_dict()


def test_a_record_names_the_actor_the_endpoint_and_the_hash(clock) -> None:
    start(world.run(), actor=Actor.agent("agent-8", Channel.CLI))
    record = IdempotencyRecord.objects.get()
    assert (record.actor, record.endpoint, record.body_hash) == ("agent-8", KEY.endpoint, KEY.body_hash)
    assert record.expires_at - record.created_at == timedelta(days=1)
