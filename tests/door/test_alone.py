"""A move that asks for nothing but its own row is made without a transaction, and never on a row that was touched."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from statecore import door
from statecore.door import alone
from statecore.journal import Event
from statecore.kernel import registry
from statecore.kernel.actors import Actor
from statecore.kernel.refusals import AlreadyInState, Invalid
from statecore.machines.pipeline_job import PipelineJob
from tests.races.records import is_whole, path
from tests.support import world

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
AGENT = Actor.agent("builder")
PATIENCE = 20.0


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "_asking", set())


@contextmanager
def between(reading_and_writing: Callable[[], None]) -> Iterator[list[str]]:
    """Something happens while the row is judged, the first time; the names of all that were judged."""
    judged: list[str] = []

    def react(changes: list[Any]) -> None:
        judged.append(changes[0].entity.pk)
        if len(judged) == 1:
            reading_and_writing()

    registry.reactions.append(react)
    try:
        yield judged
    finally:
        registry.reactions.remove(react)


def elsewhere(work: Callable[[], None]) -> threading.Thread:
    """In a connection of its own."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def analyze(job: Any) -> door.Outcome:
    return door.transition(PipelineJob, job.pk, "analyze", actor=AGENT)


def edit(job: Any) -> None:
    PipelineJob.objects.filter(pk=job.pk).update(profile="edited")


def test_it_takes_one_look_and_one_statement() -> None:
    job = world.created("PipelineJob")

    with CaptureQueriesContext(connection) as asked:
        analyze(job)

    look, write = (query["sql"] for query in asked.captured_queries)
    assert look.startswith("SELECT")
    assert "FOR NO KEY UPDATE" not in look
    assert write.startswith("WITH latch")
    assert path(is_whole(job)) == [("created", "PENDING"), ("analyze", "ANALYZING")]


def test_who_listens_hears_of_it_once_it_is_committed() -> None:
    job, heard = world.created("PipelineJob"), []

    def listen() -> None:
        heard.append((connection.in_atomic_block, PipelineJob.objects.get(pk=job.pk).state))

    registry.listeners.append(listen)
    try:
        analyze(job)
    finally:
        registry.listeners.remove(listen)

    assert heard == [(False, "ANALYZING")]


def test_a_row_that_was_touched_meanwhile_is_judged_again() -> None:
    job = world.created("PipelineJob")

    with between(lambda: elsewhere(lambda: edit(job)).join(PATIENCE)) as judged:
        analyze(job)

    assert judged == [job.pk, job.pk]
    row = is_whole(job)
    assert (row.state, row.version, row.profile) == ("ANALYZING", 2, "edited")


def test_a_row_that_moved_meanwhile_refuses_the_move() -> None:
    job = world.created("PipelineJob")

    with between(lambda: elsewhere(lambda: analyze(job) and None).join(PATIENCE)), pytest.raises(AlreadyInState):
        analyze(job)

    assert path(is_whole(job)) == [("created", "PENDING"), ("analyze", "ANALYZING")]


def test_a_row_that_is_in_other_hands_is_waited_for_and_judged_again() -> None:
    """The statement finds the row locked, waits, and sees what has become of it."""
    job, taken = world.created("PipelineJob"), threading.Event()
    waiting_for = connection_number()

    def hold() -> None:
        with transaction.atomic():
            edit(job)
            taken.set()
            until_it_waits(waiting_for)

    def begin() -> None:
        threads.append(elsewhere(hold))
        assert taken.wait(PATIENCE)

    threads: list[threading.Thread] = []
    with between(begin) as judged:
        analyze(job)
    threads[0].join(PATIENCE)

    assert judged == [job.pk, job.pk]
    row = is_whole(job)
    assert (row.state, row.version, row.profile) == ("ANALYZING", 2, "edited")


def connection_number() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def until_it_waits(number: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_blocking_pids(%s)", [number])
            if cursor.fetchone()[0]:
                return
    raise AssertionError("nobody waits for the row")


def test_a_reaction_that_asks_gets_a_transaction() -> None:
    """What it has changed is undone when it refuses; from then on the move begins with the lock."""
    job, other = world.created("PipelineJob"), world.created("PipelineJob")
    in_transaction = []

    def ask_and_refuse(changes: list[Any]) -> None:
        edit(other)
        in_transaction.append(connection.in_atomic_block)
        raise Invalid({"reaction": ["says no."]})

    registry.reactions.append(ask_and_refuse)
    try:
        for _ in range(2):
            with pytest.raises(Invalid):
                analyze(job)
    finally:
        registry.reactions.remove(ask_and_refuse)

    assert in_transaction == [True, True]
    assert alone._asking == {(PipelineJob, "analyze")}
    assert PipelineJob.objects.get(pk=other.pk).profile == ""
    assert is_whole(job).version == 1
    assert Event.objects.count() == 2
