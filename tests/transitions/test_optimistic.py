"""A transition that only reads its own row runs without a transaction, and never on a row that has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from statecore import transitions
from statecore.journal import Event
from statecore.kernel import registry
from statecore.kernel.actors import Actor
from statecore.kernel.refusals import AlreadyInState, Invalid
from statecore.machines.pipeline_job import PipelineJob
from statecore.transitions import optimistic
from tests.races.records import assert_consistent, path
from tests.support import world

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
AGENT = Actor.agent("builder")
PATIENCE = 20.0


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimistic, "_querying", set())


@contextmanager
def between(reading_and_writing: Callable[[], None]) -> Iterator[list[str]]:
    """Runs a function while the row is first evaluated; yields the ids of all evaluated rows."""
    judged: list[str] = []

    def react(work: Any, changes: list[Any]) -> None:
        judged.append(changes[0].entity.pk)
        if len(judged) == 1:
            reading_and_writing()

    registry.reactions.append(("", react))
    try:
        yield judged
    finally:
        registry.reactions.remove(("", react))


def elsewhere(work: Callable[[], None]) -> threading.Thread:
    """Starts the work in a thread with its own connection."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def analyze(job: Any) -> transitions.Outcome:
    return transitions.transition(PipelineJob, job.pk, "analyze", actor=AGENT)


RESUMED = datetime(2026, 1, 1, tzinfo=UTC)


def edit(job: Any) -> None:
    """Changes the row without an event."""
    PipelineJob.objects.filter(pk=job.pk).update(resumed_at=RESUMED)


def test_a_transition_takes_one_query_and_one_statement() -> None:
    job = world.created("PipelineJob")

    with CaptureQueriesContext(connection) as asked:
        analyze(job)

    look, write = (query["sql"] for query in asked.captured_queries)
    assert look.startswith("SELECT")
    assert "FOR NO KEY UPDATE" not in look
    assert write.startswith("WITH ")
    assert path(assert_consistent(job)) == [("created", "PENDING"), ("analyze", "ANALYZING")]


def test_listeners_run_after_the_commit() -> None:
    job, heard = world.created("PipelineJob"), []

    def listen() -> None:
        heard.append((connection.in_atomic_block, PipelineJob.objects.get(pk=job.pk).state))

    registry.listeners.append(listen)
    try:
        analyze(job)
    finally:
        registry.listeners.remove(listen)

    assert heard == [(False, "ANALYZING")]


def test_a_row_edited_concurrently_is_evaluated_again() -> None:
    job = world.created("PipelineJob")

    with between(lambda: elsewhere(lambda: edit(job)).join(PATIENCE)) as judged:
        analyze(job)

    assert judged == [job.pk, job.pk]
    row = assert_consistent(job)
    assert (row.state, row.version, row.resumed_at) == ("ANALYZING", 2, RESUMED)


def test_a_row_that_changed_state_concurrently_refuses_the_transition() -> None:
    job = world.created("PipelineJob")

    with between(lambda: elsewhere(lambda: analyze(job) and None).join(PATIENCE)), pytest.raises(AlreadyInState):
        analyze(job)

    assert path(assert_consistent(job)) == [("created", "PENDING"), ("analyze", "ANALYZING")]


def test_a_locked_row_is_awaited_and_evaluated_again() -> None:
    """The statement waits for the lock and then sees the change."""
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
    row = assert_consistent(job)
    assert (row.state, row.version, row.resumed_at) == ("ANALYZING", 2, RESUMED)


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
    raise AssertionError("no connection waits for the row")


def test_a_reaction_that_queries_gets_a_transaction() -> None:
    """Its changes are rolled back when it refuses; later calls of this transition lock first."""
    job, other = world.created("PipelineJob"), world.created("PipelineJob")
    in_transaction = []

    def ask_and_refuse(work: Any, changes: list[Any]) -> None:
        work.flush()
        edit(other)
        in_transaction.append(connection.in_atomic_block)
        raise Invalid({"reaction": ["says no."]})

    registry.reactions.append(("", ask_and_refuse))
    try:
        for _ in range(2):
            with pytest.raises(Invalid):
                analyze(job)
    finally:
        registry.reactions.remove(("", ask_and_refuse))

    assert in_transaction == [True, True]
    assert optimistic._querying == {(PipelineJob, "analyze")}
    assert PipelineJob.objects.get(pk=other.pk).profile == ""
    assert assert_consistent(job).version == 1
    assert Event.objects.count() == 2
