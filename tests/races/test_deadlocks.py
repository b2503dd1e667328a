"""Deadlocks: the transition service retries, and the caller does not notice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection

from statecore import transitions
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import ConstraintViolated
from statecore.transitions.change import Change
from statecore.transitions.unit_of_work import UnitOfWork
from tests.races.contest import PATIENCE
from tests.races.records import assert_consistent
from tests.races.test_races import fire, idle_uet_worker
from tests.support import world

on_postgres = pytest.mark.postgres  # SQLite has a single lock, which cannot deadlock


class CrossLock:
    """A reaction that locks the other entity once both callers hold their own lock.

    The barrier applies to the first attempt of each caller, so the retry after the deadlock passes.
    """

    def __init__(self, pairs: dict[str, str], trigger: str, parties: int = 2) -> None:
        self.pairs, self.trigger = pairs, trigger
        self.barrier = threading.Barrier(parties, timeout=PATIENCE)
        self.tries: Counter[str] = Counter()

    def __call__(self, work: UnitOfWork, changes: list[Change]) -> None:
        (change,) = changes
        own = change.entity.pk
        if change.entry.caused_by or own not in self.pairs:
            return
        notice_deadlocks_soon()  # the optimistic attempt starts over with a lock as soon as the reaction queries
        self.tries[own] += 1
        if self.tries[own] == 1:
            self.barrier.wait()
        given = {"actor": THE_SYSTEM, "cause": change.entry, "within": work}
        transitions.transition(type(change.entity), self.pairs[own], self.trigger, **given)


def notice_deadlocks_soon() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL deadlock_timeout = '50ms'")


@contextmanager
def reacting(reaction: registry.Reaction) -> Iterator[None]:
    registry.reactions.append(("", reaction))
    try:
        yield
    finally:
        registry.reactions.remove(("", reaction))


@on_postgres
def test_deadlocked_reactions_both_succeed(race) -> None:
    a, b = world.created("AgentJob", id="a"), world.created("AgentJob", id="b")
    crossing = CrossLock({"a": "b", "b": "a"}, "job_requeued")

    with reacting(crossing):
        answers = race([fire(a, "job_requeued"), fire(b, "job_requeued")])

    assert all(answer.won for answer in answers)
    assert sum(crossing.tries.values()) > 2, "one of the two was the victim and tried again"
    assert [len(answer.outcome["caused"]) for answer in answers] == [1, 1]
    assert [assert_consistent(job).version for job in (a, b)] == [3, 3]


@on_postgres
def test_a_cycle_of_deadlocked_reactions_is_resolved(race) -> None:
    names = [f"job-{n}" for n in range(5)]
    jobs = [world.created("AgentJob", id=name) for name in names]
    ring = dict(zip(names, names[1:] + names[:1], strict=True))

    with reacting(CrossLock(ring, "job_requeued", parties=len(names))):
        answers = race([fire(job, "job_requeued") for job in jobs])

    assert all(answer.won for answer in answers)
    assert [assert_consistent(job).version for job in jobs] == [3] * len(jobs)


@on_postgres
def test_a_deadlock_victim_is_refused_when_its_entity_has_changed(race) -> None:
    """Each assigns its own worker and shuts the other's down: one succeeds at both, the other finds its worker gone."""
    a, b = idle_uet_worker(id="a"), idle_uet_worker(id="b")

    with reacting(CrossLock({"a": "b", "b": "a"}, "shutdown_requested")):
        answers = race([fire(a, "task_assigned"), fire(b, "task_assigned")])

    assert Counter(answer.code for answer in answers) == {None: 1, "terminal_state": 1}
    mine, other = (a, b) if answers[0].won else (b, a)
    assert (assert_consistent(mine).state, assert_consistent(other).state) == ("BUSY", "TERMINATED")
    assert assert_consistent(mine).version == assert_consistent(other).version == 3


@on_postgres
def test_a_deadlocked_request_is_answered_once(race) -> None:
    a, b = world.created("AgentJob", id="a"), world.created("AgentJob", id="b")
    keys = {job.pk: transitions.RequestKey(f"key-{job.pk}", "here", "hash") for job in (a, b)}

    with reacting(CrossLock({"a": "b", "b": "a"}, "job_requeued")):
        race([fire(job, "job_requeued", request=keys[job.pk]) for job in (a, b)])

    again = transitions.transition(type(a), "a", "job_requeued", actor=THE_SYSTEM, request=keys["a"])
    assert again.replayed
    assert [assert_consistent(job).version for job in (a, b)] == [3, 3]


@on_postgres
@pytest.mark.django_db(transaction=True)
def test_an_error_other_than_a_deadlock_is_not_retried() -> None:
    job = world.created("AgentJob")
    tries = []

    def breaks(work: UnitOfWork, change: Change) -> None:
        tries.append(change.entity.pk)
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = '1ms'")
            cursor.execute("SELECT pg_sleep(10)")

    with reacting(world.reaction_per_change(breaks)), pytest.raises(OperationalError, match="statement timeout"):
        world.fire(job, "job_requeued")

    assert tries == [job.pk]
    assert assert_consistent(job).version == 1


@pytest.mark.django_db(transaction=True)
def test_a_listener_that_fails_after_the_commit_does_not_repeat_the_transition() -> None:
    job = world.created("AgentJob")
    heard = []

    def fails() -> None:
        heard.append(job.pk)
        raise OperationalError("database is locked")

    registry.listeners.append(fails)
    try:
        outcome = transitions.transition(type(job), job.pk, "job_requeued", actor=THE_SYSTEM)
    finally:
        registry.listeners.remove(fails)

    assert outcome.entity.version == assert_consistent(job).version == 2
    assert heard == [job.pk]


@pytest.mark.django_db(transaction=True)
def test_a_reaction_that_catches_a_refusal_keeps_nothing_of_the_refused_change() -> None:
    """The database refuses, which would abort the transaction without a savepoint."""
    job, run = world.created("AgentJob"), world.run()
    refusals = []

    def tries(work: UnitOfWork, change: Change) -> None:
        if change.entity.pk != job.pk:
            return
        try:
            beside = transitions.create(type(job), id="beside", actor=THE_SYSTEM, within=work).entity
            forced = {"actor": world.operator(), "reason": "forced by a test", "category": "other", "within": work}
            transitions.override(type(job), beside.pk, "running", **forced)
        except ConstraintViolated as refusal:
            refusals.append(refusal.code)
        transitions.transition(type(run), run.pk, "run_started", actor=THE_SYSTEM, cause=change.entry, within=work)

    with reacting(world.reaction_per_change(tries)):
        outcome = transitions.transition(type(job), job.pk, "job_requeued", actor=THE_SYSTEM)

    beside = world.model("AgentJob").objects.get(pk="beside")
    assert refusals == ["constraint_violated"]
    assert [entry.entity_id for entry in outcome.caused] == ["beside", run.pk]
    assert [assert_consistent(entity).version for entity in (job, run, beside)] == [2, 2, 1]
