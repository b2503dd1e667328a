"""Changes that lock each other out: the door tries again, and the caller never hears of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection

from statecore import door
from statecore.door.change import Change
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import ConstraintViolated
from tests.races.contest import PATIENCE
from tests.races.records import is_whole
from tests.races.test_races import fire, idle_uet_worker
from tests.support import world

on_postgres = pytest.mark.postgres  # SQLite has one lock, and nobody to cross it with


class CrossLock:
    """A reaction that asks for the other entity while its own is locked, after both have theirs.

    The barrier stands in the way once per caller: what is tried again after the deadlock passes.
    """

    def __init__(self, pairs: dict[str, str], trigger: str, parties: int = 2) -> None:
        self.pairs, self.trigger = pairs, trigger
        self.barrier = threading.Barrier(parties, timeout=PATIENCE)
        self.tries: Counter[str] = Counter()

    def __call__(self, changes: list[Change]) -> None:
        (change,) = changes
        own = change.entity.pk
        if change.entry.caused_by or own not in self.pairs:
            return
        notice_deadlocks_soon()  # whoever tried without a lock starts over with one as soon as anything is asked
        self.tries[own] += 1
        if self.tries[own] == 1:
            self.barrier.wait()
        door.transition(type(change.entity), self.pairs[own], self.trigger, actor=THE_SYSTEM, cause=change.entry)


def notice_deadlocks_soon() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL deadlock_timeout = '50ms'")


@contextmanager
def reacting(reaction: registry.Reaction) -> Iterator[None]:
    registry.reactions.append(reaction)
    try:
        yield
    finally:
        registry.reactions.remove(reaction)


@on_postgres
def test_reactions_that_lock_each_other_out_are_both_made(race) -> None:
    a, b = world.created("AgentJob", id="a"), world.created("AgentJob", id="b")
    crossing = CrossLock({"a": "b", "b": "a"}, "job_requeued")

    with reacting(crossing):
        answers = race([fire(a, "job_requeued"), fire(b, "job_requeued")])

    assert all(answer.won for answer in answers)
    assert sum(crossing.tries.values()) > 2, "one of the two was the victim and tried again"
    assert [len(answer.told["caused"]) for answer in answers] == [1, 1]
    assert [is_whole(job).version for job in (a, b)] == [3, 3]


@on_postgres
def test_a_ring_of_reactions_is_worked_off(race) -> None:
    names = [f"job-{n}" for n in range(5)]
    jobs = [world.created("AgentJob", id=name) for name in names]
    ring = dict(zip(names, names[1:] + names[:1], strict=True))

    with reacting(CrossLock(ring, "job_requeued", parties=len(names))):
        answers = race([fire(job, "job_requeued") for job in jobs])

    assert all(answer.won for answer in answers)
    assert [is_whole(job).version for job in jobs] == [3] * len(jobs)


@on_postgres
def test_the_victim_of_a_deadlock_is_refused_when_the_other_changed_what_it_wanted(race) -> None:
    """Each wants to take its own worker and shut down the other's: one does both, the other finds its own gone."""
    a, b = idle_uet_worker(id="a"), idle_uet_worker(id="b")

    with reacting(CrossLock({"a": "b", "b": "a"}, "shutdown_requested")):
        answers = race([fire(a, "task_assigned"), fire(b, "task_assigned")])

    assert Counter(answer.code for answer in answers) == {None: 1, "terminal_state": 1}
    mine, other = (a, b) if answers[0].won else (b, a)
    assert (is_whole(mine).state, is_whole(other).state) == ("BUSY", "TERMINATED")
    assert is_whole(mine).version == is_whole(other).version == 3


@on_postgres
def test_a_request_that_was_a_deadlocks_victim_is_answered_once(race) -> None:
    a, b = world.created("AgentJob", id="a"), world.created("AgentJob", id="b")
    keys = {job.pk: door.RequestKey(f"key-{job.pk}", "here", "hash") for job in (a, b)}

    with reacting(CrossLock({"a": "b", "b": "a"}, "job_requeued")):
        race([fire(job, "job_requeued", request=keys[job.pk]) for job in (a, b)])

    again = door.transition(type(a), "a", "job_requeued", actor=THE_SYSTEM, request=keys["a"])
    assert again.replayed
    assert [is_whole(job).version for job in (a, b)] == [3, 3]


@on_postgres
@pytest.mark.django_db(transaction=True)
def test_an_error_that_is_no_deadlock_is_not_tried_again() -> None:
    job = world.created("AgentJob")
    tries = []

    def breaks(change: Change) -> None:
        tries.append(change.entity.pk)
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = '1ms'")
            cursor.execute("SELECT pg_sleep(10)")

    with reacting(world.each(breaks)), pytest.raises(OperationalError, match="statement timeout"):
        world.fire(job, "job_requeued")

    assert tries == [job.pk]
    assert is_whole(job).version == 1


@pytest.mark.django_db(transaction=True)
def test_a_listener_that_fails_after_the_commit_does_not_make_the_change_twice() -> None:
    job = world.created("AgentJob")
    heard = []

    def fails() -> None:
        heard.append(job.pk)
        raise OperationalError("database is locked")

    registry.listeners.append(fails)
    try:
        outcome = door.transition(type(job), job.pk, "job_requeued", actor=THE_SYSTEM)
    finally:
        registry.listeners.remove(fails)

    assert outcome.entity.version == is_whole(job).version == 2
    assert heard == [job.pk]


@pytest.mark.django_db(transaction=True)
def test_a_reaction_that_goes_on_after_a_refusal_leaves_nothing_of_what_was_refused() -> None:
    """A refusal of the database, which would end a transaction without a savepoint."""
    job, run = world.created("AgentJob"), world.run()
    told = []

    def tries(change: Change) -> None:
        if change.entity.pk != job.pk:
            return
        try:
            world.forced(world.created("AgentJob", id="beside"), "running")
        except ConstraintViolated as refusal:
            told.append(refusal.code)
        door.transition(type(run), run.pk, "run_started", actor=THE_SYSTEM, cause=change.entry)

    with reacting(world.each(tries)):
        outcome = door.transition(type(job), job.pk, "job_requeued", actor=THE_SYSTEM)

    beside = world.model("AgentJob").objects.get(pk="beside")
    assert told == ["constraint_violated"]
    assert [entry.entity_id for entry in outcome.caused] == ["beside", run.pk]
    assert [is_whole(entity).version for entity in (job, run, beside)] == [2, 2, 1]
