"""Firing a trigger: what is recorded, and every refusal."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from statecore import journal, transitions
from statecore.journal import GENESIS, Event
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM, Actor, Channel
from statecore.kernel.refusals import (
    GuardFailed,
    Invalid,
    LeaseLost,
    NotFound,
    PermissionDenied,
    Refusal,
    StaleVersion,
)
from statecore.machines.ingestion_job import IngestionJob
from statecore.transitions.outcome import refusals_total
from tests.support import world
from tests.support.world import AGENT, events_of, fire, last_event, trace

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 1, 5, 8, tzinfo=UTC)


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(MONDAY, tick=False) as traveller:
        yield traveller


@pytest.fixture
def react(monkeypatch: pytest.MonkeyPatch):
    """Returns a function that registers a reaction until the test ends."""
    reactions: list[tuple[str, registry.Reaction]] = []
    monkeypatch.setattr(registry, "reactions", reactions)
    return lambda reaction: reactions.append(("", world.reaction_per_change(reaction)))


def queue(task, **more) -> transitions.Outcome:
    return transitions.transition(type(task), task.pk, "scheduler_assigned", actor=THE_SYSTEM, **more)


# Recording


def test_a_transition_changes_the_row_and_adds_one_event() -> None:
    task = world.task()

    outcome = queue(task)

    stored = type(task).objects.get(pk=task.pk)
    assert (stored.state, stored.version) == ("queued", 2)
    assert [event["to_state"] for event in events_of(task)] == ["pending", "queued"]
    assert outcome.changed
    assert outcome.entity.as_dict() == stored.as_dict()


def test_the_answer_is_the_event_the_cascade_and_the_entity() -> None:
    task = world.task()
    answer = queue(task).as_dict()
    assert answer["changed"] is True
    assert answer["event"] == last_event(task)
    assert answer["caused"] == []
    assert answer["entity"]["state"] == "queued"


def test_an_event_records_the_actor_and_the_channel() -> None:
    run = fire(world.run(), "run_started", actor=Actor.agent("agent-7", Channel.REST))
    event = last_event(run)
    assert (event["actor"], event["actor_kind"], event["channel"]) == ("agent-7", "agent", "rest")
    assert event["operator"] is None


def test_an_event_of_an_operator_carries_the_name() -> None:
    run = fire(world.run(), "run_canceled", actor=world.operator("grace", Channel.CLI))
    event = last_event(run)
    assert (event["operator"], event["actor"], event["channel"]) == ("grace", "grace", "cli")


def test_an_event_keeps_the_reason_and_the_callers_metadata() -> None:
    task = world.task()
    queue(task, reason="its turn", metadata={"ticket": "OPS-1"})
    event = last_event(task)
    assert event["reason"] == "its turn"
    assert event["metadata"]["ticket"] == "OPS-1"


def test_an_event_names_the_context_of_its_entity() -> None:
    task = world.queued_task()
    assert last_event(task)["context"] == {
        "run_id": task.run_id,
        "workstream_id": task.workstream_id,
        "phase_id": task.phase_id,
    }


def test_the_events_of_an_entity_are_chained() -> None:
    task = world.queued_task()
    first, second = Event.objects.filter(entity_id=task.pk).order_by("sequence")
    assert first.prev_hash == GENESIS
    assert (second.prev_hash, second.sequence) == (first.hash, 2)
    assert all(event.hash == journal.digest(event.body) for event in (first, second))
    assert task.chain_head == second.hash


def test_an_event_records_the_time_spent_in_the_previous_state(clock) -> None:
    task = world.task()
    clock.shift(timedelta(seconds=90, microseconds=250_000))
    assert last_event(queue(task).entity)["dwell_seconds"] == 90.25


def test_dwell_is_counted_from_the_last_change_of_state(clock) -> None:
    worker = world.worker()
    clock.shift(timedelta(seconds=30))
    fire(worker, "registration_completed")
    world.touched(worker, capabilities=["git"])
    clock.shift(timedelta(seconds=45))
    assert last_event(fire(worker, "shutdown_requested"))["dwell_seconds"] == 45


def test_the_time_of_a_change_is_the_servers(clock) -> None:
    task = queue(world.task()).entity
    assert task.state_entered_at == task.updated_at == MONDAY
    assert last_event(task)["timestamp"] == "2026-01-05T08:00:00.000000Z"


def test_time_does_not_run_backwards_in_a_chain(clock) -> None:
    task = world.task()
    clock.shift(-timedelta(seconds=5))
    assert queue(task).entity.updated_at == MONDAY


def test_a_running_task_is_given_a_lease(clock) -> None:
    task = world.running_task(timeout_sec=60)
    assert (task.attempt, task.started_at) == (1, MONDAY)
    assert task.lease_expires_at == MONDAY + timedelta(seconds=60)
    assert last_event(task)["attempt"] == 1


@pytest.mark.usefixtures("machines_in_isolation")
def test_an_event_of_a_task_has_the_specified_context(clock) -> None:
    task = world.running_task()
    clock.shift(timedelta(seconds=45))
    fire(task, "execution_completed", exit_code=0)
    metadata = last_event(task)["metadata"]
    assert metadata["worker_id"] == task.worker_id
    assert (metadata["duration_seconds"], metadata["exit_code"], metadata["retry_count"]) == (45, 0, 0)
    assert metadata["timeout_occurred"] is False


# The cascade


def test_an_outcome_lists_its_consequences(react) -> None:
    worker, run = world.worker(), world.run()

    def start_the_run(work, change) -> None:
        if change.entry.trigger == "registration_completed":
            transitions.transition(type(run), run.pk, "run_started", actor=THE_SYSTEM, cause=change.entry, within=work)

    react(start_the_run)
    outcome = transitions.transition(type(worker), worker.pk, "registration_completed", actor=AGENT)

    (caused,) = outcome.caused
    assert (caused.entity_id, caused.kind, caused.caused_by) == (run.pk, "propagated", outcome.entry.event_id)
    assert last_event(run)["caused_by"] == outcome.entry.event_id
    assert last_event(worker)["kind"] == "normal"
    assert last_event(worker)["caused_by"] is None


def test_a_chain_of_reactions_names_each_its_own_cause(react) -> None:
    first, second, third = (world.run() for _ in range(3))
    after = {first.pk: second, second.pk: third}

    def start_the_next(work, change) -> None:
        if change.entry.trigger == "run_started" and (run := after.get(change.entity.pk)):
            transitions.transition(type(run), run.pk, "run_started", actor=THE_SYSTEM, cause=change.entry, within=work)

    react(start_the_next)
    outcome = transitions.transition(type(first), first.pk, "run_started", actor=AGENT)

    assert [entry.entity_id for entry in outcome.caused] == [second.pk, third.pk]
    assert outcome.caused[1].caused_by == outcome.caused[0].event_id


def test_a_reaction_that_fails_undoes_the_change_it_followed(react) -> None:
    run = world.run()
    before = trace(run)

    def explode(work, change) -> None:
        raise RuntimeError("boom")

    react(explode)
    with pytest.raises(RuntimeError, match="boom"):
        fire(run, "run_started")
    assert trace(run) == before


def test_a_reaction_that_is_refused_undoes_the_change_it_followed(react) -> None:
    run, task = world.run(), world.task()
    before = trace(run)
    given = {"actor": THE_SYSTEM}
    react(lambda work, change: transitions.transition(type(task), task.pk, "validation_passed", within=work, **given))
    with pytest.raises(Refusal, match="not open"):
        fire(run, "run_started")
    assert trace(run) == before


def test_a_refused_nested_change_is_undone_when_the_reaction_continues(react) -> None:
    first, second, task = world.run(), world.run(), world.task()

    def try_the_second(work, change) -> None:
        if change.entity.pk == first.pk:
            with suppress(Refusal):
                transitions.transition(
                    type(second), second.pk, "run_started", actor=THE_SYSTEM, cause=change.entry, within=work
                )
        if change.entity.pk == second.pk:
            transitions.transition(
                type(task), task.pk, "validation_passed", actor=THE_SYSTEM, cause=change.entry, within=work
            )

    react(try_the_second)
    outcome = transitions.transition(type(first), first.pk, "run_started", actor=AGENT)

    assert outcome.caused == ()
    assert type(second).objects.get(pk=second.pk).state == "pending"
    assert len(events_of(second)) == 1


@pytest.mark.django_db(transaction=True)
def test_listeners_run_only_after_the_commit(monkeypatch) -> None:
    heard: list[int] = []
    monkeypatch.setattr(registry, "listeners", [lambda: heard.append(Event.objects.count())])
    run = world.run()
    heard.clear()
    with pytest.raises(Refusal):
        fire(run, "all_workstreams_completed")
    transitions.transition(type(run), run.pk, "run_started", actor=AGENT, dry_run=True)
    assert heard == []
    fire(run, "run_started")
    assert heard == [2]


# Refusals


def test_an_entity_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound, match="there is no task 'nowhere'"):
        transitions.transition(world.model("Task"), "nowhere", "scheduler_assigned", actor=THE_SYSTEM)


@pytest.mark.parametrize("entity_id", ["", "a\0b", "\ud800", "x" * 5000], ids=["empty", "NUL", "half", "long"])
def test_an_impossible_id_is_not_found(entity_id) -> None:
    with pytest.raises(NotFound):
        transitions.transition(world.model("Task"), entity_id, "scheduler_assigned", actor=THE_SYSTEM)
    with pytest.raises(NotFound):
        transitions.retry(world.model("Task"), entity_id, actor=world.operator())
    (item,) = transitions.transition_many(world.model("Task"), [entity_id], "scheduler_assigned", actor=THE_SYSTEM)
    assert item.refusal.code == "not_found"


@pytest.mark.parametrize("details", [{"note": "a\0b"}, {"a\0b": 1}, {"note": "\ud800"}, {"n": float("nan")}])
def test_an_object_that_a_database_cannot_keep_is_refused(details) -> None:
    patch = world.patch()
    before = trace(patch)
    with pytest.raises(Invalid) as refused:
        fire(patch, "validation_failed", error="its scope is wrong", details=details)
    assert list(refused.value.facts["errors"]) == ["details"]
    assert trace(patch) == before


def test_a_stale_caller_gets_the_version_and_the_open_triggers() -> None:
    task = world.queued_task()
    before = trace(task)
    with pytest.raises(StaleVersion) as refused:
        transitions.transition(
            type(task), task.pk, "worker_started", actor=AGENT, expected_version=1, params={"worker": "w"}
        )
    assert refused.value.facts == {
        "state": "queued",
        "version": 2,
        "allowed": ["gate_failed", "worker_started", "user_cancelled", "cascade_cancelled"],
    }
    assert trace(task) == before


def test_a_caller_with_the_current_version_succeeds() -> None:
    assert queue(world.task(), expected_version=1).entity.version == 2


def test_a_refusal_carries_its_code_its_sentence_and_the_facts() -> None:
    task = world.task()
    with pytest.raises(Refusal) as refused:
        fire(task, "validation_passed")
    reply = refused.value.as_dict()
    assert reply["code"] == "invalid_transition"
    assert reply["detail"] == "validation_passed is not open from pending"
    assert (reply["state"], reply["version"]) == ("pending", 1)
    assert "scheduler_assigned" in reply["allowed"]


def test_a_refused_guard_names_what_it_waits_for() -> None:
    other = world.task()
    task = world.task(workstream=other.workstream, depends_on=[other.pk])
    with pytest.raises(GuardFailed) as refused:
        queue(task)
    assert refused.value.facts["unmet"] == [
        {
            "code": "dependency_unmet",
            "detail": f"task {other.pk} is pending, not completed",
            "entity": other.pk,
        }
    ]


def test_all_unmet_guards_are_returned_together() -> None:
    other, gate = world.task(), world.gate()
    task = world.task(workstream=other.workstream, depends_on=[other.pk], entry_gates=[gate.pk])
    with pytest.raises(GuardFailed) as refused:
        queue(task)
    assert [reason.entity for reason in refused.value.unmet] == [other.pk, gate.pk]


def test_an_operator_without_the_permission_is_refused() -> None:
    run = world.run()
    before = trace(run)
    with pytest.raises(PermissionDenied) as refused:
        fire(run, "run_canceled", actor=world.operator_with("override_run"))
    assert refused.value.facts == {"required": "statecore.operate_run"}
    assert trace(run) == before


def test_an_operator_with_the_permission_for_that_machine_succeeds() -> None:
    run = fire(world.run(), "run_canceled", actor=world.operator_with("operate_run"))
    assert run.state == "canceled"


def test_a_permission_for_one_machine_is_none_for_another() -> None:
    with pytest.raises(PermissionDenied):
        fire(world.run(), "run_canceled", actor=world.operator_with("operate_task"))


@pytest.mark.parametrize(
    ("params", "field", "complaint"),
    [
        ({}, "worker", "is required."),
        ({"worker": 7}, "worker", "must be of type string."),
        ({"worker": None}, "worker", "may not be null."),
        ({"worker": "w", "state": "completed"}, "state", "is not a field of this trigger."),
        ({"worker": "a\0b"}, "worker", "must be without NUL."),
    ],
)
def test_the_fields_of_a_trigger_are_checked(params, field, complaint) -> None:
    task = world.queued_task()
    before = trace(task)
    with pytest.raises(Invalid) as refused:
        fire(task, "worker_started", **params)
    assert refused.value.facts["errors"] == {field: [complaint]}
    assert trace(task) == before


@pytest.mark.parametrize("exit_code", [True, "0", 0.5, 2**31, None])
def test_an_exit_code_is_a_small_integer(exit_code) -> None:
    task = world.running_task()
    with pytest.raises(Invalid):
        fire(task, "execution_completed", exit_code=exit_code)


@pytest.mark.parametrize(
    "words",
    [
        {"reason": "x" * 2001},
        {"reason": "\ud800"},
        {"reason": "a\0b"},
        {"metadata": {"text": "a\0b"}},
        {"metadata": {"big": "x" * 20_000}},
        {"metadata": {"what": object()}},
        {"metadata": {"text": "\ud800"}},
        {"metadata": {1: "a key that is no text"}},
    ],
)
def test_text_that_the_journal_cannot_store_is_refused(words) -> None:
    task = world.task()
    before = trace(task)
    with pytest.raises(Invalid):
        queue(task, **words)
    assert trace(task) == before


@pytest.mark.parametrize("reason", ["tab\tand\nline", 'a "quote" and a \\ backslash', "läuft → 完了 🚦", "</script>"])
def test_any_other_text_is_stored_unchanged(reason) -> None:
    task = world.task()
    queue(task, reason=reason)
    assert last_event(task)["reason"] == reason
    assert Event.objects.get(entity_id=task.pk, sequence=2).hash == task.__class__.objects.get().chain_head


def test_every_refusal_is_counted() -> None:
    task = world.task()
    counter = refusals_total.labels("task", "invalid_transition")
    before = counter._value.get()
    with pytest.raises(Refusal):
        fire(task, "validation_passed")
    assert counter._value.get() == before + 1


@pytest.mark.parametrize("name", ["", 'a"b', "a\\b", "a\nb", "x" * 151])
def test_an_actor_has_a_name_that_the_journal_can_keep(name) -> None:
    with pytest.raises(ValueError, match="name"):
        Actor.agent(name)


# Leases


@pytest.mark.usefixtures("machines_in_isolation")
def test_an_agent_that_names_the_current_attempt_reports() -> None:
    task = world.running_task()
    done = fire(task, "execution_completed", actor=AGENT, exit_code=0, attempt=1)
    assert (done.state, done.worker_id, done.exit_code) == ("validating", None, 0)


@pytest.mark.parametrize("params", [{}, {"attempt": 0}, {"attempt": 2}])
def test_an_agent_without_the_current_attempt_has_lost_its_lease(params) -> None:
    task = world.running_task()
    before = trace(task)
    with pytest.raises(LeaseLost) as refused:
        fire(task, "execution_completed", actor=AGENT, exit_code=0, **params)
    assert refused.value.code == "lease_lost"
    assert trace(task) == before


def test_a_report_from_before_a_retry_comes_too_late(clock) -> None:
    task = world.running_task()
    fire(task, "execution_failed", actor=AGENT, attempt=1, error="flaky")
    clock.shift(timedelta(hours=1))
    fire(task, "retry_delay_elapsed")
    assert fire(task, "worker_started", worker=world.idle_worker().pk).attempt == 2
    with pytest.raises(LeaseLost):
        fire(task, "execution_completed", actor=AGENT, exit_code=0, attempt=1)


# Choice between two transitions


def test_a_failure_is_retried_while_retries_remain_and_final_after(clock) -> None:
    task = world.running_task(max_retries=1)
    retrying = fire(task, "execution_failed", error="flaky")
    assert (retrying.state, retrying.retry_count, retrying.worker_id) == ("retrying", 1, None)
    clock.shift(timedelta(hours=1))
    fire(task, "retry_delay_elapsed")
    fire(task, "worker_started", worker=world.idle_worker().pk)
    failed = fire(task, "execution_failed", error="again")
    assert (failed.state, failed.last_error, failed.retry_count) == ("failed", "again", 1)


def test_the_wait_before_a_retry_doubles(clock, settings) -> None:
    settings.STATECORE_RETRY_BASE_SECONDS = 8
    task, waits = world.running_task(), []
    for _try in range(3):
        task = fire(task, "execution_failed", error="flaky")
        waits.append((task.retry_at - task.updated_at).total_seconds())
        clock.shift(timedelta(hours=1))
        fire(task, "retry_delay_elapsed")
        fire(task, "worker_started", worker=world.idle_worker().pk)
    assert all(low <= wait <= 2 * low for low, wait in zip((4, 8, 16), waits, strict=True))


# Dry runs


def test_a_dry_run_returns_everything_and_stores_nothing(react) -> None:
    worker, run = world.worker(), world.run()
    react(
        lambda work, change: (
            change.entity.pk == worker.pk
            and transitions.transition(
                type(run), run.pk, "run_started", actor=THE_SYSTEM, cause=change.entry, within=work
            )
        )
    )
    before = trace(worker), trace(run)

    outcome = transitions.transition(type(worker), worker.pk, "registration_completed", actor=AGENT, dry_run=True)

    assert (outcome.entity.state, outcome.entry.to_state) == ("idle", "idle")
    assert [entry.to_state for entry in outcome.caused] == ["running"]
    assert (trace(worker), trace(run)) == before


def test_a_repeat_is_a_conflict() -> None:
    run = fire(world.run(), "run_started")
    with pytest.raises(Refusal) as refused:
        fire(run, "run_started")
    assert refused.value.code == "already_in_state"


def test_a_repeat_by_another_worker_is_a_conflict() -> None:
    job = fire(world.created("IngestionJob"), "start", actor=AGENT, worker="w-1")
    with pytest.raises(Refusal) as refused:
        fire(job, "start", actor=AGENT, worker="w-2")
    assert refused.value.code == "already_in_state"


def test_a_repeat_of_an_ingestion_job_changes_nothing() -> None:
    job = fire(world.created("IngestionJob"), "start", actor=AGENT)
    before = trace(job)
    outcome = transitions.transition(type(job), job.pk, "start", actor=AGENT)
    assert outcome.as_dict()["changed"] is False
    assert (outcome.entry, outcome.caused, outcome.entity.state) == (None, (), "running")
    assert trace(job) == before


def test_a_repeat_is_open_only_to_those_who_may_operate() -> None:
    job = fire(world.created("IngestionJob"), "start")
    with pytest.raises(PermissionDenied):
        fire(job, "start", actor=world.operator_with("view_ingestionjob"))


def test_a_caller_cannot_overwrite_what_the_machine_records() -> None:
    job = world.created("IngestionJob")
    given = {"worker_name": "somebody else", "ticket": "OPS-1"}
    transitions.transition(IngestionJob, job.pk, "start", actor=AGENT, metadata=given)
    metadata = last_event(job)["metadata"]
    assert (metadata["worker_name"], metadata["ticket"]) == (AGENT.name, "OPS-1")


def test_an_outcome_has_the_state_after_the_reactions(monkeypatch) -> None:
    def fail_at_once(work, change) -> None:
        if change.entry.to_state == "running":
            given = {"actor": THE_SYSTEM, "cause": change.entry, "within": work}
            transitions.transition(type(change.entity), change.entity.pk, "fail", **given)

    monkeypatch.setattr(registry, "reactions", [("", world.reaction_per_change(fail_at_once))])
    outcome = transitions.transition(IngestionJob, world.created("IngestionJob").pk, "start", actor=THE_SYSTEM)
    assert (outcome.entry.to_state, outcome.entity.state, outcome.entity.version) == ("running", "failed", 3)


@pytest.mark.parametrize("given", [{"reason": None}, {"reason": 5}, {"metadata": ["a"]}, {"params": ["a"]}])
def test_a_reason_or_metadata_of_the_wrong_type_is_refused(given) -> None:
    with pytest.raises(Invalid):
        transitions.transition(IngestionJob, world.created("IngestionJob").pk, "start", actor=THE_SYSTEM, **given)
