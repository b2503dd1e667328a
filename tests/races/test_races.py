"""Races for the same entity: exactly one call wins, none is lost, and every other call gets the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any

import pytest

from statecore import transitions
from statecore.journal import Event, IdempotencyRecord
from statecore.kernel.actors import THE_SYSTEM, Actor
from statecore.transitions import RequestKey
from tests.races.contest import Call, operator
from tests.races.records import assert_consistent, path
from tests.support import world

# The processes that race on SQLite run without reactions, so the threads that race on PostgreSQL do too.
pytestmark = pytest.mark.usefixtures("machines_in_isolation")

ROUNDS = 8
numbers = count(1)
REASON = "forced while others were at it"


def repeat_race(test: Callable[..., None]) -> Callable[..., None]:
    """Runs a test several times, because a race shows a bug only now and then."""

    @wraps(test)
    def rounds(**fixtures: Any) -> None:
        for _ in range(ROUNDS):
            test(**fixtures)

    return rounds


def fire(entity, trigger, *, actor=THE_SYSTEM, **given) -> Call:
    return Call("transition", entity.flow.entity_type, (entity.pk, trigger), {"actor": actor, **given})


def force(entity, state, **given) -> Call:
    details = {"actor": operator(), "reason": REASON, "category": "stuck", **given}
    return Call("override", entity.flow.entity_type, (entity.pk, state), details)


def fire_many(model, ids, trigger) -> Call:
    return Call("transition_many", model.flow.entity_type, (ids, trigger), {"actor": THE_SYSTEM})


def idle_uet_worker(**fields):
    made = world.created("UetWorker", worker_type="executor", **fields)
    return world.fire(made, "initialization_completed")


@repeat_race
def test_a_transition_fired_by_many_happens_once(race, crowd) -> None:
    run = world.run()

    answers = race([fire(run, "run_started")] * crowd)

    assert Counter(answer.code for answer in answers) == {None: 1, "already_in_state": crowd - 1}
    assert all(answer.refused["version"] == 2 for answer in answers if answer.refused)
    assert path(assert_consistent(run)) == [("created", "pending"), ("run_started", "running")]


@repeat_race
def test_one_of_two_exclusive_transitions_succeeds(race) -> None:
    job = world.fire(world.fire(world.created("SupervisedJob", task_description="sort"), "validate"),
                     "allocate_resources", workers=world.idle_supervised_workers("w-1"))  # fmt: skip

    success, error = race([fire(job, "success"), fire(job, "error")])

    assert {success.code, error.code} == {None, "terminal_state"}
    row = assert_consistent(job)
    assert row.version == 4
    assert row.state == ("COMPLETED" if success.won else "FAILED")


@repeat_race
def test_concurrent_repeats_all_succeed_and_are_recorded_once(race, crowd) -> None:
    job = world.created("IngestionJob")

    answers = race([fire(job, "start", actor=Actor.agent("one agent"))] * crowd)

    assert Counter(answer.outcome["changed"] for answer in answers) == {True: 1, False: crowd - 1}
    assert assert_consistent(job).version == 2


@repeat_race
def test_callers_with_the_same_expected_version_change_it_once(race, crowd) -> None:
    job = world.created("AgentJob")

    answers = race([fire(job, "job_requeued", expected_version=1)] * crowd)

    assert Counter(answer.code for answer in answers) == {None: 1, "stale_version": crowd - 1}
    assert assert_consistent(job).version == 2


def test_compatible_transitions_all_succeed(race, crowd) -> None:
    job = world.created("AgentJob")

    answers = race([fire(job, "job_requeued")] * crowd)

    assert all(answer.won for answer in answers)
    versions = sorted(answer.outcome["event"]["version"] for answer in answers)
    assert versions == list(range(2, crowd + 2))
    assert assert_consistent(job).version == crowd + 1


@repeat_race
def test_a_task_claimed_by_many_workers_goes_to_one(race, crowd) -> None:
    task = world.queued_task()
    workers = [world.idle_worker() for _ in range(crowd)]

    answers = race(
        [fire(task, "worker_started", actor=Actor.agent(worker.pk), params={"worker": worker.pk})
         for worker in workers]
    )  # fmt: skip

    assert Counter(answer.code for answer in answers) == {None: 1, "already_in_state": crowd - 1}
    (winner,) = (worker for worker, got in zip(workers, answers, strict=True) if got.won)
    row = assert_consistent(task)
    assert (row.state, row.worker_id, row.attempt, row.version) == ("running", winner.pk, 1, 3)


@repeat_race
def test_an_override_is_never_overwritten_by_the_report_it_raced(race) -> None:
    task = world.running_task()
    report = {"actor": world.AGENT, "params": {"attempt": task.attempt, "exit_code": 0}}

    forced, reported = race([force(task, "failed"), fire(task, "execution_completed", **report)])

    assert forced.won
    assert reported.code in (None, "lease_lost")
    row = assert_consistent(task)
    assert (row.state, row.attempt, row.worker_id) == ("failed", 2, None)
    assert row.version == (5 if reported.won else 4)


@repeat_race
def test_an_override_with_an_expected_version_and_a_report_exclude_each_other(race) -> None:
    task = world.running_task()
    report = {"actor": world.AGENT, "params": {"attempt": task.attempt, "exit_code": 0}}

    forced, reported = race(
        [force(task, "queued", expected_version=task.version), fire(task, "execution_completed", **report)]
    )  # fmt: skip

    assert (forced.code, reported.code) in [(None, "lease_lost"), ("stale_version", None)]
    row = assert_consistent(task)
    assert (row.state, row.version) == ("queued" if forced.won else "validating", 4)


@repeat_race
def test_a_report_of_a_lost_lease_never_ends_the_new_attempt(race) -> None:
    task, second = world.running_task(), world.idle_worker()
    late = {"attempt": task.attempt, "exit_code": 0}
    world.forced(task, "queued")

    claimed, reported = race(
        [fire(task, "worker_started", params={"worker": second.pk}),
         fire(task, "execution_completed", actor=world.AGENT, params=late)]
    )  # fmt: skip

    assert claimed.won
    assert reported.code == "lease_lost"
    row = assert_consistent(task)
    assert (row.state, row.worker_id, row.attempt) == ("running", second.pk, 3)


@repeat_race
def test_two_racing_overrides_are_both_recorded(race) -> None:
    breaker = world.created("CircuitBreaker")

    answers = race([force(breaker, "OPEN", actor=operator("ada")),
                    force(breaker, "HALF_OPEN", actor=operator("bob"))])  # fmt: skip

    assert all(answer.won for answer in answers)
    row = assert_consistent(breaker)
    assert (row.version, row.attempt) == (3, 2)
    assert {event["operator"] for event in world.events_of(row)[1:]} == {"ada", "bob"}


@repeat_race
def test_batches_over_the_same_entities_in_opposite_order_change_each_once(race, crowd) -> None:
    workers = [idle_uet_worker() for _ in range(12)]
    ids = [worker.pk for worker in workers]
    model = type(workers[0])
    orders = [ids[:9], ids[:2:-1], ids[::-1], ids[4:] + ids[:4]]

    answers = race([fire_many(model, orders[n % len(orders)], "task_assigned") for n in range(crowd)])

    assert all(answer.won for answer in answers)
    winners = Counter(pk for answer in answers for pk, code in answer.outcome.items() if code is None)
    assert winners == Counter(ids)
    assert {code for answer in answers for code in answer.outcome.values()} <= {None, "already_in_state"}
    assert all(assert_consistent(worker).version == 3 for worker in workers)


def test_a_batch_and_single_transitions_change_each_entity_once(race, crowd) -> None:
    workers = [idle_uet_worker() for _ in range(10)]
    ids = [worker.pk for worker in workers]

    batch, *singles = race(
        [fire_many(type(workers[0]), ids, "shutdown_requested")]
        + [fire(workers[-n], "task_assigned") for n in range(1, crowd)]
    )

    assert batch.won
    assert set(batch.outcome.values()) == {None}
    assert {single.code for single in singles} <= {None, "terminal_state"}
    rows = [assert_consistent(worker) for worker in workers]
    assert sum(row.version for row in rows) == 3 * len(rows) + sum(single.won for single in singles)
    assert {row.state for row in rows} <= {"TERMINATED", "DRAINING"}


@repeat_race
def test_a_request_key_raced_by_many_is_one_transition_and_one_answer(race, crowd) -> None:
    job = world.created("AgentJob")
    request = RequestKey(f"key-{next(numbers)}", f"agent-jobs/{job.pk}/transitions/", "hash-of-body")

    answers = race([fire(job, "job_requeued", actor=world.AGENT, request=request)] * crowd)

    outcomes = [answer.outcome for answer in answers]
    assert Counter(outcome.pop("replayed") for outcome in outcomes) == {False: 1, True: crowd - 1}
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert assert_consistent(job).version == 2
    assert IdempotencyRecord.objects.filter(key=request.key).count() == 1


def test_a_request_key_raced_by_different_requests_belongs_to_one_of_them(race, crowd) -> None:
    jobs = [world.created("AgentJob") for _ in range(crowd)]

    answers = race(
        [fire(job, "job_requeued", actor=world.AGENT, request=RequestKey("key-1", job.pk, "hash"))
         for job in jobs]
    )  # fmt: skip

    assert Counter(a.code for a in answers) == {None: 1, "idempotency_mismatch": crowd - 1}
    assert sorted(assert_consistent(job).version for job in jobs) == [1] * (crowd - 1) + [2]


def test_a_request_key_of_a_refused_request_is_free_for_the_next(race, crowd) -> None:
    """Half of the calls are refused and release the key; no call gets the answer of a refused one."""
    run = world.run()
    request = RequestKey("key-1", "runs/transitions/", "hash")
    calls = [fire(run, "run_started", actor=world.AGENT, expected_version=n % 2, request=request)
             for n in range(crowd)]  # fmt: skip

    answers = race(calls)

    assert all(answer.code in (None, "stale_version") for answer in answers)
    assert all(answer.won for answer in answers[1::2])
    assert assert_consistent(run).version == 2


@repeat_race
def test_an_id_requested_by_many_is_created_once(race, crowd) -> None:
    mine = f"mine-{next(numbers)}"

    answers = race(
        [Call("create", "supervised_worker", (),
              {"actor": Actor.agent(f"agent-{n}"), "id": mine, "workspace_id": f"space-{n}"})
         for n in range(crowd)]
    )  # fmt: skip

    assert Counter(answer.code for answer in answers) == {None: 1, "duplicate_id": crowd - 1}
    (winner,) = (n for n, answer in enumerate(answers) if answer.won)
    row = assert_consistent(world.model("SupervisedWorker").objects.get(pk=mine))
    assert (row.workspace_id, row.version) == (f"space-{winner}", 1)
    assert Event.objects.filter(entity_id=mine).count() == 1


@repeat_race
def test_a_final_entity_gets_one_successor_from_many_retries(race, crowd) -> None:
    job = world.fire(world.created("PipelineJob"), "cancel")

    answers = race([Call("retry", "pipeline_job", (job.pk,), {"actor": THE_SYSTEM})] * crowd)

    assert Counter(answer.code for answer in answers) == {None: 1, "already_retried": crowd - 1}
    (heir,) = type(job).objects.filter(retry_of=job)
    assert (assert_consistent(heir).version, assert_consistent(job).version) == (1, 2)


def test_a_dry_run_raced_by_a_transition_leaves_nothing_behind(race, crowd) -> None:
    run = world.run()

    real, *previews = race([fire(run, "run_started")] + [force(run, "failed", dry_run=True) for _ in range(crowd - 1)])

    assert real.won
    assert all(preview.won for preview in previews)
    assert path(assert_consistent(run)) == [("created", "pending"), ("run_started", "running")]


def test_the_transition_service_answers_after_every_race(race, crowd) -> None:
    run = world.run()
    race([fire(run, "run_started")] * crowd)

    outcome = transitions.override(type(run), run.pk, "canceled", actor=operator(), reason=REASON, category="other")

    assert outcome.entity.state == "canceled"
    assert assert_consistent(run).version == 3
