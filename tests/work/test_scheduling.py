"""Claims, leases, heartbeats and the sweeps that enforce them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import time_machine
from django.db import connection, connections, transaction

from statecore import scheduling, transitions
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.kernel.refusals import GuardFailed, Invalid, LeaseLost, NotFound, Refusal
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import RECOVERY_WINDOW, Worker
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.records import Recall, recall
from statecore.scheduling import timers
from statecore.storage import triggers
from tests.races.contest import PATIENCE
from tests.support import world
from tests.support.waiting import has_lock_waiters, until
from tests.work.agents import (
    Agent,
    gate,
    states,
    submit,
    task,
    workstream,
)
from tests.work.crowd import at_once

pytestmark = pytest.mark.django_db
START = datetime(2026, 1, 5, 8, tzinfo=UTC)


@pytest.fixture
def clock() -> Iterator[time_machine.Coordinates]:
    with time_machine.travel(START, tick=False) as travelled:
        yield travelled


def row(name: str) -> Task:
    return Task.objects.get(pk=name)


def refused(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(Refusal) as refusal:
        call()
    return refusal.value.code, refusal.value.detail


# Claims


def test_a_worker_gets_only_tasks_it_has_the_capabilities_for() -> None:
    submit(
        workstream("a", task("git", required_capabilities=["git"]), task("both", required_capabilities=["git", "sql"]))
    )
    assert Agent("none").claim() == []
    assert Agent("sql", capabilities=["sql"]).claim() == []
    assert [held.pk for held in Agent("git", capabilities=["aider", "git"]).claim()] == ["git"]
    assert [held.pk for held in Agent("both", capabilities=["sql", "git"]).claim()] == ["both"]


def test_a_worker_with_an_affinity_keeps_to_its_workstreams() -> None:
    submit(workstream("a", "a1"), workstream("b", "b1"), workstream("c", "c1"))
    assert Agent("nowhere", affinity={"workstreams": ["z"]}).claim() == []
    assert Agent("never", affinity={"workstreams": []}).claim() == []
    near = Agent("near", affinity={"workstreams": ["b", "c"]}, max_concurrent_tasks=3)
    assert [held.pk for held in near.claim()] == ["b1", "c1"]
    assert [held.pk for held in Agent("anywhere", affinity={}).claim()] == ["a1"]


@pytest.mark.parametrize("most", [5, 1])
def test_in_a_run_the_highest_priority_goes_first_and_then_the_oldest(clock, most: int) -> None:
    soon = (START + timedelta(minutes=1)).isoformat()
    submit(
        workstream("a", "old-1", "old-2", task("low", priority=-1)),
        workstream("b", task("high", priority=5, not_before=soon), task("new", not_before=soon)),
    )
    clock.shift(60)
    timers.queue_due_tasks()
    agents = [Agent(f"w-{number}", max_concurrent_tasks=most) for number in range(5 // most)]
    assert [held.pk for agent in agents for held in agent.claim()] == ["high", "old-1", "old-2", "new", "low"]


def test_the_highest_priority_goes_first_and_then_the_runs_in_turn(clock) -> None:
    submit(workstream("a", "old-1", "old-2", task("low", priority=-1)))
    clock.shift(60)
    submit(workstream("b", task("high", priority=5), "new"), id="s")
    agents = [Agent(f"w-{number}") for number in range(5)]
    assert [held.pk for agent in agents for held in agent.claim()] == ["high", "new", "old-1", "old-2", "low"]


def test_a_worker_claims_up_to_its_capacity_and_is_busy_until_it_holds_none() -> None:
    submit(workstream("a", *(f"t{number}" for number in range(5))))
    agent = Agent(max_concurrent_tasks=3)
    held = agent.claim()
    assert (len(held), agent.row.state, agent.row.current_load) == (3, "busy", 3)
    agent.finish(held[0])
    agent.fail(held[1])
    assert (agent.row.state, agent.row.current_load) == ("busy", 1)
    assert refused(agent.claim) == ("guard_failed", "claim: worker w is busy, not idle")
    agent.finish(held[2])
    assert (agent.row.state, agent.row.current_load) == ("idle", 0)
    assert len(agent.claim(most=1)) == 1
    assert integrity.check_all() == []


def test_a_claim_that_finds_nothing_leaves_the_worker_idle(clock) -> None:
    agent = Agent()
    clock.shift(30)
    assert agent.claim() == []
    assert (agent.row.state, agent.row.last_heartbeat) == ("idle", now())


@pytest.mark.parametrize("most", [0, -1, 1.5, "2", True], ids=repr)
def test_the_limit_of_a_claim_is_a_positive_integer(most: Any) -> None:
    with pytest.raises(Invalid):
        Agent().claim(most)


def test_a_refused_claim_names_the_reason(clock) -> None:
    submit(workstream("a", "a1", "a2"))
    with pytest.raises(NotFound):
        scheduling.claim("unknown", actor=THE_SYSTEM)
    with pytest.raises(NotFound):
        scheduling.claim("not an id", actor=THE_SYSTEM)
    world.worker(id="new")
    assert (
        refused(lambda: scheduling.claim("new", actor=THE_SYSTEM))[1] == "claim: worker new is initializing, not idle"
    )
    gone = Agent("gone")
    transitions.transition(Worker, "gone", "shutdown_requested", actor=gone.actor)
    assert refused(gone.claim)[1] == "claim: worker gone is shutdown, not idle"
    lost = Agent("lost")
    lost.claim()
    clock.shift(121)
    timers.mark_unresponsive_workers()
    assert refused(lost.claim)[1] == "claim: worker lost is unresponsive, not idle"


def test_a_claimed_task_has_a_lease_and_an_attempt_number(clock) -> None:
    submit(workstream("a", task("a1", timeout_sec=90)))
    (held,) = Agent().claim()
    assert (held.state, held.worker_id, held.attempt) == ("running", "w", 1)
    assert (held.started_at, held.lease_expires_at) == (START, START + timedelta(seconds=90))


# Starting a task without a claim


def test_a_task_is_not_started_on_a_full_worker() -> None:
    submit(workstream("a", "a1", "a2"))
    agent = Agent()
    agent.claim()
    assert refused(lambda: world.fire(row("a2"), "worker_started", worker="w"))[0] == "guard_failed"


def test_a_batch_of_starts_does_not_overfill_a_worker() -> None:
    submit(workstream("a", "a1", "a2"))
    Agent()
    with pytest.raises(GuardFailed, match="has room for 1, not 2") as refusal:
        transitions.transition_many(Task, ["a1", "a2"], "worker_started", actor=THE_SYSTEM, params={"worker": "w"})
    assert (refusal.value.facts["state"], refusal.value.facts["version"]) == ("queued", 2)  # as the tasks stay
    assert states(Task) == {"a1": "queued", "a2": "queued"}
    assert Worker.objects.get().current_load == 0


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_of_two_tasks_started_concurrently_on_a_worker_one_is_refused() -> None:
    submit(workstream("a", "a1", "a2"))
    Agent()

    def start(name: str) -> Callable[[], str]:
        return lambda: (
            transitions.transition(Task, name, "worker_started", actor=THE_SYSTEM, params={"worker": "w"}).entity.state
        )

    for answer in at_once(start("a1"), start("a2")):
        assert answer == "running" or isinstance(answer, GuardFailed)
    assert sorted(states(Task).values()) == ["queued", "running"]
    assert integrity.check_all() == []


# Draining and shutting down


def test_draining_an_idle_worker_shuts_it_down_at_once() -> None:
    agent = Agent()
    scheduling.drain_worker("w", actor=THE_SYSTEM)
    assert agent.row.state == "shutdown"
    with pytest.raises(NotFound):
        scheduling.drain_worker("unknown", actor=THE_SYSTEM)


@pytest.mark.django_db(transaction=True)
def test_concurrent_drains_of_a_worker_all_succeed() -> None:
    agent = Agent()
    assert at_once(*[lambda: scheduling.drain_worker("w", actor=THE_SYSTEM)] * 3) == [None, None, None]
    assert agent.row.state == "shutdown"
    scheduling.drain_worker("w", actor=THE_SYSTEM)


def test_a_drained_busy_worker_finishes_and_is_then_shut_down() -> None:
    submit(workstream("a", "a1", "a2", "a3"))
    agent = Agent(max_concurrent_tasks=2)
    one, two = agent.claim()
    scheduling.drain_worker("w", actor=THE_SYSTEM)
    assert scheduling.record_heartbeat("w", actor=agent.actor) == {"state": "busy", "commands": [{"shutdown": True}]}
    agent.finish(one)
    assert agent.row.state == "busy"
    agent.finish(two)
    assert (agent.row.state, agent.row.current_load) == ("shutdown", 0)
    assert states(Task)["a3"] == "queued"
    assert integrity.check_all() == []


def test_a_worker_drained_before_its_registration_never_gets_work() -> None:
    submit(workstream("a", "a1"))
    world.worker(id="new")
    scheduling.drain_worker("new", actor=THE_SYSTEM)
    transitions.transition(Worker, "new", "registration_completed", actor=THE_SYSTEM)
    assert Worker.objects.get().state == "shutdown"


def test_a_drained_worker_that_recovers_without_tasks_is_shut_down(clock) -> None:
    submit(workstream("a", task("a1", timeout_sec=130)))
    agent = Agent()
    agent.claim()
    scheduling.drain_worker("w", actor=THE_SYSTEM)
    clock.shift(131)
    timers.mark_unresponsive_workers()
    timers.time_out_tasks()
    assert (agent.row.state, agent.row.current_load) == ("unresponsive", 0)
    assert scheduling.record_heartbeat("w", actor=agent.actor)["state"] == "shutdown"
    assert agent.row.state == "shutdown"


def test_a_busy_worker_that_shuts_down_may_finish_its_tasks() -> None:
    submit(workstream("a", "a1", "a2"))
    agent = Agent()
    (held,) = agent.claim()
    transitions.transition(Worker, "w", "shutdown_requested", actor=agent.actor)
    answer = scheduling.record_heartbeat("w", actor=agent.actor)
    assert answer == {"state": "shutdown", "commands": [{"shutdown": True}]}
    agent.finish(held)
    assert states(Task) == {"a1": "completed", "a2": "queued"}
    assert agent.row.current_load == 0
    assert integrity.check_all() == []


def test_forcing_a_worker_to_shut_down_retries_its_tasks() -> None:
    submit(workstream("a", "a1", "a2"))
    agent = Agent(max_concurrent_tasks=2)
    agent.claim()
    world.forced(agent.row, "shutdown")
    assert states(Task) == {"a1": "retrying", "a2": "retrying"}
    assert row("a1").last_error == "worker w was lost"
    assert agent.row.current_load == 0
    assert integrity.check_all() == []


# Heartbeats


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_only_the_heartbeat_itself_commits_asynchronously() -> None:
    """Neither later statements nor a surrounding transaction are affected."""

    def synchronous_commit() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            return str(cursor.fetchone()[0])

    agent = Agent()
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = 'local'")
    try:
        scheduling.record_heartbeat("w", actor=agent.actor)
        assert synchronous_commit() == "local"
        with transaction.atomic():
            scheduling.record_heartbeat("w", actor=agent.actor)
            assert synchronous_commit() == "local"
    finally:
        connection.close()


def test_a_heartbeat_is_one_statement_and_makes_no_event(clock, django_assert_num_queries) -> None:
    agent = Agent()
    clock.shift(60)
    events = Event.objects.count()
    with django_assert_num_queries(1):
        assert scheduling.record_heartbeat("w", actor=agent.actor) == {"state": "idle", "commands": []}
    assert agent.row.last_heartbeat == now()
    assert Event.objects.count() == events


def test_a_heartbeat_never_moves_backwards(clock) -> None:
    agent = Agent()
    clock.shift(-30)
    scheduling.record_heartbeat("w", actor=agent.actor)
    assert agent.row.last_heartbeat == START


def test_a_heartbeat_of_an_unknown_worker_is_refused() -> None:
    with pytest.raises(NotFound):
        scheduling.record_heartbeat("unknown", actor=THE_SYSTEM)


def test_cancelled_tasks_are_recalled_after_further_claims(clock) -> None:
    submit(workstream("a", "a1", "a2", "a3"))
    agent = Agent(max_concurrent_tasks=2)
    one, two = agent.claim()
    world.fire(one, "user_cancelled", actor=world.operator())
    cancel = {"cancel": "a1", "attempt": 1}
    for _ in range(2):
        assert scheduling.record_heartbeat("w", actor=agent.actor) == {"state": "busy", "commands": [cancel]}
    world.fire(two, "user_cancelled", actor=world.operator())
    both = [cancel, {"cancel": "a2", "attempt": 1}]
    assert scheduling.record_heartbeat("w", actor=agent.actor) == {"state": "idle", "commands": both}
    agent.claim()  # the response to the heartbeat may have been lost
    assert scheduling.record_heartbeat("w", actor=agent.actor) == {"state": "busy", "commands": both}


def test_a_recall_is_repeated_until_the_lease_would_have_ended(clock) -> None:
    submit(workstream("a", task("a1", timeout_sec=60)))
    agent = Agent()
    (held,) = agent.claim()
    world.fire(held, "user_cancelled", actor=world.operator())
    clock.shift(timedelta(seconds=60) + RECOVERY_WINDOW - timedelta(microseconds=1))
    assert recall.forget() == 0
    assert scheduling.record_heartbeat("w", actor=agent.actor)["commands"] == [{"cancel": "a1", "attempt": 1}]
    clock.shift(timedelta(microseconds=1))
    assert scheduling.record_heartbeat("w", actor=agent.actor)["commands"] == []
    assert (recall.forget(), Recall.objects.count()) == (1, 0)


def test_an_earlier_attempt_at_a_task_held_again_is_not_recalled(clock) -> None:
    """An agent that identifies tasks by id alone would stop the new attempt."""
    submit(workstream("a", task("a1", timeout_sec=60)))
    agent = Agent()
    agent.claim()
    clock.shift(60)
    timers.time_out_tasks()
    assert scheduling.record_heartbeat("w", actor=agent.actor)["commands"] == [{"cancel": "a1", "attempt": 1}]
    clock.shift(60)
    timers.queue_retries()
    (again,) = agent.claim()
    assert again.attempt == 2
    assert scheduling.record_heartbeat("w", actor=agent.actor) == {"state": "busy", "commands": []}


def test_a_heartbeat_recalls_held_tasks_that_belong_to_others(clock, django_assert_num_queries) -> None:
    submit(workstream("a", "a1", "a2", "a3"))
    agent, other = Agent(max_concurrent_tasks=2), Agent("other")
    one, two = agent.claim()
    (foreign,) = other.claim()
    world.fire(one, "user_cancelled", actor=world.operator())
    holds = {("a1", 1), ("a2", 1), ("a2", 7), (foreign.pk, 1), ("never-heard-of", 1)}
    to_stop = [("a1", 1), ("a2", 7), (foreign.pk, 1), ("never-heard-of", 1)]
    cancels = [{"cancel": task, "attempt": attempt} for task, attempt in to_stop]
    for _ in range(2):
        with django_assert_num_queries(1):
            assert scheduling.record_heartbeat("w", actor=agent.actor, holds=holds) == {
                "state": "busy",
                "commands": cancels,
            }
    agent.finish(two)
    agent.claim()
    assert scheduling.record_heartbeat("w", actor=agent.actor, holds={("a1", 1)})["commands"] == cancels[:1]
    assert scheduling.record_heartbeat("w", actor=agent.actor, holds=set())["commands"] == [], "the agent holds nothing"
    assert scheduling.record_heartbeat("w", actor=agent.actor)["commands"] == cancels[:1], "all recalls without `holds`"


def test_a_shut_down_worker_is_told_its_lost_tasks() -> None:
    submit(workstream("a", "a1"))
    agent = Agent()
    agent.claim()
    world.forced(agent.row, "shutdown")
    answer = {"state": "shutdown", "commands": [{"cancel": "a1", "attempt": 1}, {"shutdown": True}]}
    assert scheduling.record_heartbeat("w", actor=agent.actor) == answer
    assert scheduling.record_heartbeat("w", actor=agent.actor, holds={("a1", 1)}) == answer


def test_reported_tasks_are_not_recalled() -> None:
    submit(workstream("a", "a1", "a2"))
    agent = Agent(max_concurrent_tasks=2)
    one, two = agent.claim()
    agent.finish(one)
    agent.fail(two)
    assert scheduling.record_heartbeat("w", actor=agent.actor)["commands"] == []


def test_a_report_from_a_lost_lease_is_refused(clock) -> None:
    submit(workstream("a", task("a1", timeout_sec=60)))
    slow, quick = Agent("slow"), Agent("quick")
    (held,) = slow.claim()
    clock.shift(61)
    timers.time_out_tasks()
    clock.shift(3600)
    scheduling.record_heartbeat("quick", actor=quick.actor)
    timers.queue_retries()
    (again,) = quick.claim()
    with pytest.raises(LeaseLost):
        slow.finish(held)
    with pytest.raises(LeaseLost):
        slow.fail(held)
    quick.finish(again)
    assert (row("a1").state, row("a1").attempt) == ("completed", 2)


# Time


def test_the_retry_delay_grows_and_has_jitter(clock, settings) -> None:
    settings.STATECORE_RETRY_BASE_SECONDS, settings.STATECORE_RETRY_CAP_SECONDS = 10, 60
    submit(workstream("a", *(task(f"t{number}", max_retries=5) for number in range(8))))
    agent = Agent(max_concurrent_tasks=8)
    seen = []
    for longest in (10, 20, 40, 60, 60):
        scheduling.record_heartbeat("w", actor=agent.actor)
        for held in agent.claim():
            agent.fail(held)
        delays = [(retry_at - now()).total_seconds() for retry_at in Task.objects.values_list("retry_at", flat=True)]
        assert all(longest / 2 <= wait <= longest for wait in delays)
        assert len(set(delays)) == 8
        seen.append(max(delays))
        clock.shift(max(delays))
        assert timers.queue_retries() == 8
    assert seen[0] < seen[1] < seen[2]


def test_a_retry_is_queued_exactly_when_due(clock) -> None:
    submit(workstream("a", "a1"))
    agent = Agent()
    agent.fail(*agent.claim())
    wait = row("a1").retry_at - now()
    clock.shift(wait - timedelta(microseconds=1))
    assert timers.queue_retries() == 0
    clock.shift(timedelta(microseconds=1))
    assert timers.queue_retries() == 1
    assert (row("a1").state, row("a1").retry_count) == ("queued", 1)


def test_a_timeout_is_retried_and_then_fails(clock) -> None:
    submit(workstream("a", task("a1", timeout_sec=60, max_retries=1, is_critical=True), is_critical=True))
    agent = Agent()
    agent.claim()
    clock.shift(timedelta(seconds=59, microseconds=999_999))
    assert timers.time_out_tasks() == 0
    clock.shift(timedelta(microseconds=1))
    assert timers.time_out_tasks() == 1
    assert (row("a1").state, row("a1").last_error) == ("retrying", "timed out after 60 s")
    assert scheduling.record_heartbeat("w", actor=agent.actor)["commands"] == [{"cancel": "a1", "attempt": 1}]
    clock.shift(60)
    scheduling.record_heartbeat("w", actor=agent.actor)
    timers.queue_retries()
    agent.claim()
    clock.shift(60)
    timers.time_out_tasks()
    assert states(Task) == {"a1": "failed"}
    assert states(Run) == {"r": "failed"}
    assert integrity.check_all() == []


@pytest.mark.parametrize("allowed", [20, 200])
def test_changing_the_timeout_of_a_running_task_moves_its_lease(clock, allowed: int) -> None:
    submit(workstream("a", task("a1", timeout_sec=60)))
    agent = Agent()
    agent.claim()
    answer = transitions.edit(Task, "a1", {"timeout_sec": allowed}, actor=world.operator())
    assert answer.lease_expires_at == row("a1").lease_expires_at == START + timedelta(seconds=allowed)
    clock.shift(timedelta(seconds=allowed, microseconds=-1))
    assert timers.time_out_tasks() == 0
    assert scheduling.record_heartbeat("w", actor=agent.actor)["commands"] == []
    assert integrity.check_all() == []
    clock.shift(timedelta(microseconds=1))
    assert timers.time_out_tasks() == 1
    assert row("a1").last_error == f"timed out after {allowed} s"
    assert scheduling.record_heartbeat("w", actor=agent.actor)["commands"] == [{"cancel": "a1", "attempt": 1}]


def test_a_queued_task_has_no_lease(clock) -> None:
    submit(workstream("a", "a1"))
    assert transitions.edit(Task, "a1", {"timeout_sec": 5}, actor=THE_SYSTEM).lease_expires_at is None


def test_another_worker_retries_the_tasks_of_a_dead_worker(clock) -> None:
    submit(workstream("a", "a1", "a2"))
    dead, other = Agent("dead", max_concurrent_tasks=2), Agent("other", max_concurrent_tasks=2)
    held = dead.claim()
    clock.shift(120)
    assert timers.mark_unresponsive_workers() == 0
    clock.shift(1)
    assert timers.mark_unresponsive_workers() == 1
    assert (dead.row.state, set(states(Task).values())) == ("unresponsive", {"running"})
    scheduling.record_heartbeat("other", actor=other.actor)
    clock.shift(179)
    assert timers.end_lost_workers() == 0
    clock.shift(1)
    assert timers.end_lost_workers() == 1
    assert (dead.row.state, dead.row.current_load) == ("shutdown", 0)
    assert set(states(Task).values()) == {"retrying"}
    assert refused(lambda: dead.finish(held[0]))[0] == "lease_lost"
    answer = scheduling.record_heartbeat("dead", actor=dead.actor)
    assert answer["commands"] == [{"cancel": "a1", "attempt": 1}, {"cancel": "a2", "attempt": 1}, {"shutdown": True}]
    clock.shift(100)
    timers.queue_retries()
    assert sorted(other.work()) == ["a1", "a2"]
    assert states(Run) == {"r": "succeeded"}


def test_a_worker_that_recovers_in_time_keeps_its_tasks(clock) -> None:
    submit(workstream("a", "a1"))
    agent = Agent()
    (held,) = agent.claim()
    clock.shift(200)
    timers.mark_unresponsive_workers()
    assert scheduling.record_heartbeat("w", actor=agent.actor) == {"state": "busy", "commands": []}
    assert (agent.row.state, agent.row.current_load) == ("busy", 1)
    assert timers.end_lost_workers() == 0
    agent.finish(held)
    assert (agent.row.state, agent.row.current_load) == ("idle", 0)
    assert states(Run) == {"r": "succeeded"}
    assert integrity.check_all() == []


def test_a_report_of_an_unresponsive_worker_is_accepted(clock) -> None:
    submit(workstream("a", "a1"))
    agent = Agent()
    (held,) = agent.claim()
    clock.shift(200)
    timers.mark_unresponsive_workers()
    agent.finish(held)
    assert states(Run) == {"r": "succeeded"}
    assert (agent.row.state, agent.row.current_load) == ("unresponsive", 0)
    assert scheduling.record_heartbeat("w", actor=agent.actor)["state"] == "idle"


def test_a_stale_idle_worker_is_shut_down_after_the_recovery_window(clock) -> None:
    stale, alive = Agent("stale"), Agent("alive")
    clock.shift(299)
    scheduling.record_heartbeat("alive", actor=alive.actor)
    assert timers.mark_unresponsive_workers() == timers.end_lost_workers() == 0
    clock.shift(2)
    assert timers.end_lost_workers() == 1
    assert (stale.row.state, alive.row.state) == ("shutdown", "idle")


def test_a_task_held_by_a_worker_that_shut_down_and_died_times_out(clock) -> None:
    submit(workstream("a", task("a1", timeout_sec=600)))
    agent = Agent()
    agent.claim()
    transitions.transition(Worker, "w", "shutdown_requested", actor=agent.actor)
    clock.shift(600)
    assert timers.time_out_tasks() == 1
    assert states(Task) == {"a1": "retrying"}
    assert integrity.check_all() == []


def test_a_sweep_is_limited_and_continues_next_time(clock) -> None:
    submit(workstream("a", *(task(f"t{number}", timeout_sec=1) for number in range(timers.BATCH + 20))))
    agent = Agent(max_concurrent_tasks=1000)
    assert len(agent.claim()) == timers.BATCH + 20
    clock.shift(1)
    assert [timers.time_out_tasks() for _ in range(3)] == [timers.BATCH, 20, 0]
    assert (agent.row.state, agent.row.current_load) == ("idle", 0)


def test_refused_rows_hide_no_other_row_from_a_sweep(clock) -> None:
    submit(workstream("a", *(task(f"t{number}", timeout_sec=1) for number in range(timers.BATCH)), "late"))
    Agent(max_concurrent_tasks=1000).claim()
    with triggers.disabled(connection):  # bypasses the transition service, so the lease stays
        Task.objects.exclude(pk="late").update(timeout_sec=10_000)
    clock.shift(1800)
    assert [timers.time_out_tasks() for _ in range(3)] == [0, 1, 0]
    assert states(Task)["late"] == "retrying"


# Concurrency


def create_overdue_work() -> None:
    """Create work for every sweep: timeouts, due retries, missed heartbeats, workers to shut down."""
    started = now() - timedelta(hours=1)
    with time_machine.travel(started, tick=False) as clock:
        submit(workstream("a", *(task(f"t{number:02}", timeout_sec=60) for number in range(30))))
        for name in ("silent", "lost", "idle", "late"):
            Agent(name, max_concurrent_tasks=5)
        for held in scheduling.claim("silent", actor=THE_SYSTEM):
            transitions.transition(Task, held.pk, "execution_failed", actor=THE_SYSTEM, params={"error": "broke"})
        for name in ("silent", "lost", "late"):
            scheduling.claim(name, actor=THE_SYSTEM)
        clock.shift(121)
        timers.mark_unresponsive_workers()
        scheduling.record_heartbeat("silent", actor=THE_SYSTEM)


SWEEPS = ("time_out_tasks", "queue_retries", "mark_unresponsive_workers", "end_lost_workers")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("sweep", SWEEPS)
def test_concurrent_runs_of_a_sweep_handle_each_row_once(sweep: str) -> None:
    create_overdue_work()
    alone = getattr(timers, sweep)
    counts = at_once(alone, alone, alone)
    assert all(isinstance(count, int) for count in counts), counts
    assert sum(counts) > 0
    assert alone() == 0
    transitions = Event.objects.filter(kind="normal").values_list("entity_type", "entity_id", "sequence")
    assert len(set(transitions)) == len(transitions)
    assert not Worker.objects.filter(state__in=("shutdown",), tasks__isnull=False).exists()
    assert [finding for finding in integrity.check_all() if finding.check not in TIMELY] == []


# Invariants that other sweeps restore.
TIMELY = ("running_tasks_are_within_their_timeout", "live_workers_are_heard_from")


@pytest.mark.django_db(transaction=True)
def test_all_sweeps_run_concurrently_leave_nothing_undone() -> None:
    create_overdue_work()
    for _ in range(3):
        answers = at_once(*(getattr(timers, sweep) for sweep in SWEEPS))
        assert all(isinstance(count, int) for count in answers), answers
    assert integrity.check_all() == []
    assert set(states(Worker).values()) == {"shutdown"}


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_heartbeat_during_a_sweep_keeps_an_idle_worker() -> None:
    with time_machine.travel(now() - timedelta(minutes=10), tick=False):
        agent = Agent()
    with held_by_another(Worker, "w", last_heartbeat=now()) as release, ThreadPoolExecutor(1) as pool:
        sweep = pool.submit(in_thread(timers.end_lost_workers))
        wait_for_lock_or(sweep.done)
        release()
        assert sweep.result(PATIENCE) == 0
    assert agent.row.state == "idle"


@pytest.mark.django_db(transaction=True)
def test_concurrent_heartbeats_of_a_recovered_worker_are_all_answered() -> None:
    with time_machine.travel(now() - timedelta(seconds=200), tick=False) as clock:
        submit(workstream("a", "a1"))
        agent = Agent()
        agent.claim()
        clock.shift(121)
        timers.mark_unresponsive_workers()
    answers = at_once(*[lambda: scheduling.record_heartbeat("w", actor=agent.actor)] * 4)
    assert answers == [{"state": "busy", "commands": []}] * 4
    assert Event.objects.filter(trigger="health_check_recovered").count() == 1


@pytest.mark.django_db(transaction=True)
def test_heartbeats_racing_with_completion_harm_nothing() -> None:
    submit(workstream("a", *(f"t{number}" for number in range(10))))
    agent = Agent()
    for _ in range(10):
        (held,) = agent.claim()
        beat = lambda: scheduling.record_heartbeat("w", actor=agent.actor)  # noqa: E731
        answers = at_once(beat, lambda held=held: agent.finish(held).entity.state, beat)
        assert answers[1] == "completed"
        assert {answers[0]["state"], answers[2]["state"]} <= {"busy", "idle"}
        assert (agent.row.state, agent.row.current_load) == ("idle", 0)
    assert states(Run) == {"r": "succeeded"}
    assert integrity.check_all() == []


# Rows locked by another transaction


class Release:
    def __init__(self) -> None:
        self.go = threading.Event()
        self.held = threading.Event()

    def __call__(self) -> None:
        self.go.set()


def in_thread(call: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        try:
            return call()
        finally:
            connections.close_all()

    return run


class held_by_another:  # noqa: N801 - reads as a statement
    """Lock a row in another transaction, which changes it or not, until released."""

    def __init__(self, model: Any, pk: str, **changed: Any) -> None:
        self.model, self.pk, self.changed, self.release = model, pk, changed, Release()

    def _hold(self) -> None:
        with transaction.atomic():
            found = self.model.objects.select_for_update(no_key=True).filter(pk=self.pk)
            assert len(found) == 1
            if self.changed:
                self.model.objects.filter(pk=self.pk).update(**self.changed)
            self.release.held.set()
            assert self.release.go.wait(PATIENCE)

    def __enter__(self) -> Release:
        self.pool = ThreadPoolExecutor(1)
        self.holder = self.pool.submit(in_thread(self._hold))
        assert self.release.held.wait(PATIENCE)
        return self.release

    def __exit__(self, *_: object) -> None:
        self.release()
        self.holder.result(PATIENCE)
        self.pool.shutdown()


def wait_for_lock_or(done: Callable[[], bool]) -> None:
    until(lambda: done() or has_lock_waiters())


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_task_locked_by_another_transaction_is_still_released() -> None:
    """The transaction that holds the lock may be refused, and then re-evaluates nothing."""
    submit(workstream("a", "a1", task("a2", "a1")))
    agent = Agent()
    (held,) = agent.claim()
    with held_by_another(Task, "a2") as release, ThreadPoolExecutor(1) as pool:
        finished = pool.submit(in_thread(lambda: agent.finish(held)))
        wait_for_lock_or(finished.done)
        assert states(Task) == {"a1": "completed", "a2": "blocked"}
        release()
        finished.result(PATIENCE)
    assert states(Task) == {"a1": "completed", "a2": "queued"}


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_workstream_locked_by_another_transaction_still_ends() -> None:
    submit(workstream("a", "a1"))
    agent = Agent()
    (held,) = agent.claim()
    with held_by_another(Workstream, "a") as release, ThreadPoolExecutor(1) as pool:
        finished = pool.submit(in_thread(lambda: agent.finish(held)))
        wait_for_lock_or(finished.done)
        release()
        finished.result(PATIENCE)
    assert states(Run) == {"r": "succeeded"}


FAILED: dict[str, Any] = {"actor": THE_SYSTEM, "params": {"exit_code": 1}}


@pytest.mark.django_db(transaction=True)
def test_a_gate_that_fails_while_its_task_is_claimed_blocks_it() -> None:
    for number in range(8):
        submit(workstream(f"a{number}", task(f"t{number}", gates=[f"g{number}"])), id=f"r{number}",
               gates=[gate(f"g{number}")])  # fmt: skip
        transitions.transition(TestGate, f"g{number}", "gate_started", actor=THE_SYSTEM)
        agent = Agent(f"w{number}")
        fails = partial(transitions.transition, TestGate, f"g{number}", "gate_failed", **FAILED)
        claimed, failed = at_once(agent.claim, fails)
        assert (len(claimed) <= 1, failed.entry.to_state) == (True, "FAILED")
    assert set(states(Task).values()) == {"blocked"}
    assert set(states(Worker).values()) == {"idle"}
    assert integrity.check_all() == []
