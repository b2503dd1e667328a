"""The agent job: guards, fields, its log, and the state folded from the log."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import IntegrityError, connection, transaction

from statecore import transitions
from statecore.journal import OVERRIDDEN as OVERRIDE_TRIGGER
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM, Actor
from statecore.kernel.refusals import (
    ConstraintViolated,
    GuardFailed,
    IdempotencyMismatch,
    Invalid,
    InvalidTransition,
    LeaseLost,
    NotFound,
    PermissionDenied,
    StaleVersion,
    TerminalState,
)
from statecore.machines.agent_job import AgentJob
from statecore.records.agent_job_event import AgentJobEvent
from statecore.scheduling import agent_job_log, agent_job_replay
from statecore.scheduling.agent_job_replay import LoggedEvent, replay
from statecore.storage import triggers
from statecore.transitions import RequestKey
from tests.support import world

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def the_log_is_kept(monkeypatch):
    monkeypatch.setattr(registry, "reactions", [("agent_job", agent_job_log.append_changes)])


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


def job(**fields):
    return world.created("AgentJob", **fields)


def running():
    return world.fire(job(), "job_leased", worker="w1")


def waiting(signal="approval"):
    return world.fire(running(), "job_waiting", signal=signal)


def failed():
    return world.fire(running(), "job_failed", error="no plan")


def append(entity, type_, *, actor=world.AGENT, **given):
    return agent_job_log.append_event(entity.pk, type_, actor=actor, **given)


def types(entity):
    return [event.type for event in agent_job_log.events_of(entity.pk)]


def reloaded(entity):
    return AgentJob.objects.get(pk=entity.pk)


def log(*types_):
    return [LoggedEvent(type_) for type_ in types_]


# Transitions


@pytest.mark.parametrize("trigger", ["job_leased", "job_running"])
def test_a_lease_counts_the_attempt_and_names_the_worker(trigger):
    leased = world.fire(job(), trigger, worker="w1")
    assert (leased.attempt, leased.worker_name, leased.started_at) == (1, "w1", NOON)


def test_a_lease_without_a_worker_is_held_by_the_caller():
    assert world.fire(job(), "job_leased", actor=world.AGENT).worker_name == world.AGENT.name


def test_a_long_name_is_kept_whole():
    leased = world.fire(job(), "job_leased", worker="w" * 500)
    assert reloaded(leased).worker_name == "w" * 500


def test_a_wait_names_its_signal_and_lets_the_worker_go():
    blocked = waiting()
    assert (blocked.waiting_for, blocked.worker_name) == ("approval", "")


def test_a_parked_job_still_waits_for_its_signal():
    assert world.fire(waiting(), "job_parked").waiting_for == "approval"


@pytest.mark.parametrize("parked", [False, True])
def test_another_signal_than_the_awaited_one_is_refused(parked):
    job = waiting(signal="review")
    job = world.fire(job, "job_parked") if parked else job
    with pytest.raises(GuardFailed, match="review"):
        world.fire(job, "wait_completed", signal="deploy")
    assert world.fire(job, "wait_completed", signal="review").state == "queued"


def test_a_wait_without_a_signal_is_ended_by_any_signal():
    assert world.fire(waiting(signal=""), "wait_completed", signal="review").state == "queued"


def test_a_signal_puts_a_parked_job_back_into_the_queue():
    woken = world.fire(world.fire(waiting(), "job_parked"), "wait_completed", actor=world.AGENT)
    assert (woken.state, woken.waiting_for) == ("queued", "")


@pytest.mark.parametrize("trigger", ["job_leased", "job_running", "job_requeued"])
@pytest.mark.parametrize("parked", [False, True], ids=["waiting", "parked"])
def test_a_blocked_job_is_never_reclaimed(trigger, parked):
    blocked = world.fire(waiting(), "job_parked") if parked else waiting()
    with pytest.raises(InvalidTransition):
        world.fire(blocked, trigger)


@pytest.mark.parametrize("trigger", ["job_requeued", "wait_completed"])
def test_a_queued_job_may_be_queued_again_and_that_is_an_event(trigger):
    queued = job()
    again = world.fire(queued, trigger)
    assert (again.state, again.version) == ("queued", queued.version + 1)


def test_a_completed_job_keeps_its_result():
    done = world.fire(running(), "job_completed", result={"files": 3})
    assert (done.result, done.completed_at, done.worker_name) == ({"files": 3}, NOON, "")


def test_a_failed_job_keeps_its_error():
    broken = failed()
    assert (broken.last_error, broken.completed_at) == ("no plan", NOON)


def test_a_failed_job_is_queued_again_in_place():
    again = world.fire(failed(), "job_requeued", actor=world.AGENT, attempt=1)
    assert (again.state, again.completed_at) == ("queued", None)


def test_a_completed_job_is_never_queued_again():
    with pytest.raises(TerminalState):
        world.fire(world.fire(running(), "job_completed"), "job_requeued")


@pytest.mark.parametrize("trigger", ["job_waiting", "job_completed", "job_failed", "job_requeued", "job_cancelled"])
def test_a_report_from_a_lost_lease_is_refused(trigger):
    with pytest.raises(LeaseLost):
        world.fire(running(), trigger, actor=world.AGENT, attempt=7)


@pytest.mark.parametrize("make", [running, failed])
def test_a_scheduled_retry_waits_for_its_turn(make):
    later = world.fire(make(), "job_retry_scheduled", delay_seconds=30)
    with pytest.raises(GuardFailed) as refusal:
        world.fire(later, "job_leased")
    assert refusal.value.unmet[0].code == "backing_off"
    assert later.retry_at == NOON + timedelta(seconds=30)


def test_a_scheduled_retry_is_leased_when_it_is_due(clock):
    later = world.fire(failed(), "job_retry_scheduled", delay_seconds=30)
    clock.shift(30)
    again = world.fire(later, "job_leased")
    assert (again.state, again.retry_at, again.attempt) == ("running", None, 2)


def test_a_scheduled_retry_keeps_the_last_error_unless_given_another():
    assert world.fire(failed(), "job_retry_scheduled").last_error == "no plan"
    assert world.fire(failed(), "job_retry_scheduled", error="net").last_error == "net"


def test_a_negative_delay_is_refused():
    with pytest.raises(GuardFailed) as refusal:
        world.fire(running(), "job_retry_scheduled", delay_seconds=-1)
    assert refusal.value.unmet[0].code == "negative_delay"


@pytest.mark.parametrize(("make", "trigger"), [(waiting, "job_parked"), (running, "job_retry_scheduled")])
def test_an_agent_neither_parks_nor_schedules(make, trigger):
    with pytest.raises(PermissionDenied):
        world.fire(make(), trigger, actor=world.AGENT)


def test_a_job_cannot_be_forced_to_run_without_a_worker():
    with pytest.raises(ConstraintViolated):
        world.forced(job(), "running")


@pytest.mark.parametrize("state", ["queued", "waiting", "parked", "retrying", "completed", "failed", "cancelled"])
def test_forcing_a_running_job_lets_its_worker_go(state):
    forced = world.forced(running(), state)
    ended = NOON if state in ("completed", "failed", "cancelled") else None
    assert (forced.worker_name, forced.completed_at) == ("", ended)


# The log


def test_every_change_of_a_job_is_an_event_of_its_log():
    done = world.fire(running(), "job_completed", result={"files": 3})
    assert types(done) == ["job_created", "job_leased", "job_completed"]
    row = agent_job_log.events_of(done.pk).last()
    assert (row.payload, row.actor, row.at) == ({"result": {"files": 3}}, "system", NOON)
    assert row.journal_event == world.last_event(done)["event_id"]


def test_a_retried_job_begins_a_log_of_its_own():
    done = world.fire(running(), "job_completed")
    heir = transitions.retry(AgentJob, done.pk, actor=THE_SYSTEM).entity
    assert (types(heir), types(done)[-1]) == (["job_created"], "job_completed")


def test_an_override_is_an_event_with_its_target_state():
    forced = world.forced(running(), "cancelled")
    row = agent_job_log.events_of(forced.pk).last()
    assert (row.type, row.to_state) == ("manual_override", "cancelled")


def test_other_machines_leave_the_log_alone():
    world.fire(world.created("IngestionJob"), "start")
    assert not AgentJobEvent.objects.exists()


def test_appending_a_driving_event_changes_the_state():
    entity = job()
    answer = append(entity, "job_leased", payload={"worker": "w9", "host": "h1"}).as_dict()
    assert (answer["sequence"], answer["changed"], answer["state"]) == (2, True, "running")
    assert answer["payload"] == {"worker": "w9", "host": "h1"}
    assert reloaded(entity).worker_name == "w9"
    assert world.last_event(entity)["metadata"] == {"host": "h1"}


def test_appending_a_driving_event_that_is_not_open_is_refused_and_leaves_no_trace():
    entity = job()
    with pytest.raises(InvalidTransition):
        append(entity, "job_completed")
    assert types(entity) == ["job_created"]


def test_appending_another_event_leaves_state_version_and_journal_alone():
    entity = running()
    before = world.trace(entity)
    answer = append(entity, "plan_generated", payload={"steps": 3}).as_dict()
    assert (answer["sequence"], answer["changed"], answer["state"]) == (3, False, "running")
    assert (answer["journal_event"], answer["actor"], answer["version"]) == (None, world.AGENT.name, entity.version)
    assert world.trace(entity) == before


def test_a_trace_may_arrive_after_the_end():
    done = world.fire(running(), "job_completed")
    append(done, "trace_uploaded")
    assert types(done)[-2:] == ["job_completed", "trace_uploaded"]


@pytest.mark.parametrize("type_", ["job_created", "job_queued"])
def test_a_log_is_opened_once(type_):
    with pytest.raises(InvalidTransition):
        append(job(), type_)


@pytest.mark.parametrize("type_", ["manual_override", "", "Plan", "9lives", "a-b", "a" * 65, "plan\n"])
def test_a_type_that_is_no_free_identifier_is_refused(type_):
    with pytest.raises(Invalid) as refusal:
        append(job(), type_)
    assert "type" in refusal.value.facts["errors"]


@pytest.mark.parametrize("payload", [["list"], {"nul": "a\0b"}, {"odd": {1, 2}}, {"long": "x" * 262_144}])
@pytest.mark.parametrize("type_", ["plan_generated", "job_leased"])
def test_a_payload_that_cannot_be_kept_is_refused(type_, payload):
    with pytest.raises(Invalid) as refusal:
        append(job(), type_, payload=payload)
    assert "payload" in refusal.value.facts["errors"]


def test_a_backslash_before_u0000_is_no_nul():
    assert append(job(), "noted", payload={"text": r"\u0000"}).as_dict()["payload"] == {"text": r"\u0000"}


def test_appending_to_an_unknown_job_is_refused():
    with pytest.raises(NotFound):
        agent_job_log.append_event("nope", "plan_generated", actor=world.AGENT)


def test_an_operator_without_the_permission_appends_nothing():
    with pytest.raises(PermissionDenied):
        append(job(), "plan_generated", actor=world.operator_with("view_agentjob"))


def test_a_stale_caller_appends_nothing():
    with pytest.raises(StaleVersion):
        append(job(), "plan_generated", expected_version=9)


@pytest.mark.parametrize("type_", ["plan_generated", "job_leased"])
def test_the_same_request_twice_is_one_event(type_):
    entity, request = job(), RequestKey("k1", "events", "hash")
    first = append(entity, type_, request=request)
    second = append(entity, type_, request=request)
    assert second.replayed
    assert second.as_dict() == first.as_dict()
    assert types(entity) == ["job_created", type_]


def test_the_same_key_with_another_body_is_refused():
    entity = job()
    append(entity, "plan_generated", request=RequestKey("k1", "events", "hash"))
    with pytest.raises(IdempotencyMismatch):
        append(entity, "plan_generated", request=RequestKey("k1", "events", "other"))


def test_a_preview_appends_nothing():
    entity = job()
    append(entity, "plan_generated", dry_run=True)
    assert types(entity) == ["job_created"]


@pytest.mark.parametrize(
    "statement", ["UPDATE statecore_agentjobevent SET type = 'x'", "DELETE FROM statecore_agentjobevent"]
)
def test_the_log_is_append_only_in_the_database(statement):
    job()
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


# The fold


def test_the_fold_knows_the_name_of_an_override():
    assert agent_job_replay.OVERRIDDEN == OVERRIDE_TRIGGER


def test_a_trigger_leads_to_one_state_only():
    targets = {}
    for move in AgentJob.flow.transitions:
        assert targets.setdefault(move.trigger, move.target) == move.target


def test_an_empty_log_adds_up_to_nothing():
    assert replay([]) == ""


@pytest.mark.parametrize("opening", ["job_created", "job_queued", "job_requeued"])
def test_a_log_begins_in_the_queue(opening):
    assert replay(log(opening)) == "queued"


@pytest.mark.parametrize(
    ("type_", "state"),
    [
        ("job_leased", "running"),
        ("job_running", "running"),
        ("job_waiting", "waiting"),
        ("job_parked", "parked"),
        ("wait_completed", "queued"),
        ("job_retry_scheduled", "retrying"),
        ("job_completed", "completed"),
        ("job_failed", "failed"),
        ("job_cancelled", "cancelled"),
        ("plan_generated", "queued"),
    ],
)
def test_the_last_driving_event_decides(type_, state):
    assert replay(log("job_created", type_, "node_started")) == state


def test_an_override_in_the_log_carries_its_state():
    assert replay([LoggedEvent("job_created"), LoggedEvent("manual_override", "parked")]) == "parked"


def test_column_and_fold_agree_whatever_happened():
    world.fire(waiting(), "job_parked")
    world.fire(failed(), "job_retry_scheduled")
    world.forced(running(), "cancelled")
    append(running(), "plan_generated")
    assert list(agent_job_replay.find_mismatches()) == []
    assert list(agent_job_replay.find_violations()) == []


def test_a_change_the_log_has_not_seen_is_found(monkeypatch):
    entity = running()
    monkeypatch.setattr(registry, "reactions", [])
    world.fire(entity, "job_waiting")
    (found,) = agent_job_replay.find_mismatches()
    assert (found.job_id, found.column, found.replayed) == (entity.pk, "waiting", "running")


def test_a_job_without_a_log_is_found(monkeypatch):
    monkeypatch.setattr(registry, "reactions", [])
    entity = job()
    (found,) = agent_job_replay.find_mismatches()
    assert (found.job_id, found.column, found.replayed) == (entity.pk, "queued", "")


# The invariants of a log


def test_what_follows_an_end_is_found():
    events = log("job_created", "job_leased", "job_completed", "job_running")
    assert (
        agent_job_replay.final_states_are_not_left("running", events) == "job_running follows the final state completed"
    )


@pytest.mark.parametrize("type_", ["job_requeued", "job_retry_scheduled"])
def test_a_failure_may_be_followed_by_another_try(type_):
    events = log("job_created", "job_leased", "job_failed", type_)
    assert agent_job_replay.final_states_are_not_left("queued", events) is None


@pytest.mark.parametrize("state", ["waiting", "parked"])
def test_a_wait_that_no_event_began_is_found(state):
    events = log("job_created", "job_leased")
    assert agent_job_replay.blocked_jobs_have_a_blocking_event(state, events) is not None
    assert agent_job_replay.blocked_jobs_have_a_blocking_event("running", events) is None


def test_a_run_that_no_event_began_is_found():
    assert agent_job_replay.running_jobs_have_a_starting_event("running", log("job_created")) is not None
    assert agent_job_replay.running_jobs_have_a_starting_event("running", log("job_created", "job_running")) is None
    assert agent_job_replay.running_jobs_have_a_starting_event("running", []) is not None


def test_a_blocked_job_that_was_reclaimed_is_found():
    events = log("job_created", "job_leased", "job_waiting", "job_leased")
    assert (
        agent_job_replay.blocked_jobs_are_not_reclaimed("running", events) == "job_leased is not allowed from waiting"
    )


def test_a_log_that_skips_a_step_is_found():
    events = log("job_created", "job_completed")
    assert agent_job_replay.every_event_was_allowed("completed", events) == "job_completed is not allowed from queued"
    assert (
        agent_job_replay.every_event_was_allowed("running", log("job_leased"))
        == "job_leased is not allowed as the first event"
    )


def test_a_broken_log_is_found_in_the_database():
    entity = running()
    with triggers.disabled(connection):
        AgentJobEvent.objects.create(job=entity, sequence=3, type="job_queued", actor="x", at=NOON)
    assert {(found.job_id, found.invariant) for found in agent_job_replay.find_violations()} == {
        (entity.pk, "every_event_was_allowed"),
        (entity.pk, "running_jobs_have_a_starting_event"),
    }


@pytest.mark.django_db(transaction=True)
def test_agents_that_append_at_once_get_a_place_each():
    entity = job()

    def some(name):
        with closing(connection):
            for _ in range(5):
                append(entity, "node_started", actor=Actor.agent(name))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(some, ["a1", "a2", "a3", "a4"]))
    assert [event.sequence for event in agent_job_log.events_of(entity.pk)] == list(range(1, 22))


def test_the_log_distinguishes_agents():
    entity = job()
    append(entity, "plan_generated", actor=Actor.agent("a2"))
    append(entity, "job_leased", actor=Actor.agent("a1"))
    assert [event.actor for event in agent_job_log.events_of(entity.pk)] == ["system", "a2", "a1"]
