"""Positions: dense, complete, in an order that keeps entities in sequence and causes before effects."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import IntegrityError, connection, transaction

from statecore import door, scheduling
from statecore.journal import Event
from statecore.kernel import triggers
from statecore.kernel.actors import THE_SYSTEM
from statecore.records import Numbering, Phase, Position, commit_order
from tests.support import world
from tests.support.plans import swept
from tests.support.sequencer import catch_up, ordered, sequencer

pytestmark = pytest.mark.django_db(transaction=True)


def walk(worker_id: str, moves: int) -> None:
    for move in range(moves):
        trigger = "task_completed" if move % 2 else "task_assigned"
        door.transition(world.model("UetWorker"), worker_id, trigger, actor=THE_SYSTEM)


def uet_worker() -> str:
    worker = world.created("UetWorker", worker_type="test")
    return world.fire(worker, "initialization_completed").pk if worker.state == "SPAWNING" else worker.pk


def in_order(events: list[str]) -> None:
    """Every event is there once, each entity's in sequence, each cause before what it caused."""
    rows = {row.event_id: row for row in Event.objects.all()}
    assert sorted(events) == sorted(rows)
    seen: dict[tuple[str, str], int] = {}
    told: set[str] = set()
    for event_id in events:
        row = rows[event_id]
        assert row.sequence == seen.get((row.entity_type, row.entity_id), 0) + 1
        seen[row.entity_type, row.entity_id] = row.sequence
        assert not row.caused_by or row.caused_by in told
        told.add(event_id)


@contextmanager
def thread_of(deed, *args) -> Iterator[threading.Thread]:
    def run() -> None:
        try:
            deed(*args)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    yield thread
    thread.join(30)
    assert not thread.is_alive()


def test_events_are_numbered_once_and_densely() -> None:
    world.running_task()
    catch_up()
    first = ordered()
    world.workstream()
    catch_up()
    catch_up()

    assert ordered()[: len(first)] == first
    in_order(ordered())
    assert Numbering.objects.get().head == len(ordered())


def test_events_of_one_transaction_keep_the_order_in_which_they_happened() -> None:
    worker = uet_worker()
    with transaction.atomic():
        walk(worker, 40)
        world.run()
        walk(worker, 40)
    catch_up()

    in_order(ordered())


def test_a_cascade_is_numbered_after_its_cause() -> None:
    task = world.running_task()
    cause = door.transition(
        type(task), task.pk, "execution_failed", actor=THE_SYSTEM, params={"error": "no", "attempt": task.attempt}
    ).entry
    assert cause is not None
    effect = door.transition(
        world.model("Worker"), task.worker_id, "shutdown_requested", actor=THE_SYSTEM, cause=cause
    ).entry
    assert effect is not None
    catch_up()

    events = ordered()
    assert events.index(cause.event_id) < events.index(effect.event_id)


@pytest.mark.postgres
def test_a_transaction_that_stays_open_holds_up_nobody_and_is_not_missed() -> None:
    busy, late = uet_worker(), uet_worker()
    written, go_on = threading.Event(), threading.Event()

    def stay_open() -> None:
        with transaction.atomic():
            walk(late, 3)
            written.set()
            assert go_on.wait(30)

    catch_up()
    with thread_of(stay_open):
        assert written.wait(10)
        for _round in range(20):
            walk(busy, 2)
            catch_up()
        before = ordered()
        assert len(before) == Event.objects.count()
        go_on.set()
    walk(busy, 2)
    catch_up()

    assert len(ordered()) == len(before) + 5
    in_order(ordered())


@pytest.mark.postgres
def test_a_transaction_older_than_the_one_it_waited_for_comes_after_it() -> None:
    """It has the lower number of the two, and the entity's later event."""
    shared, own = uet_worker(), uet_worker()
    begun, moved = threading.Event(), threading.Event()

    def older() -> None:
        with transaction.atomic():
            walk(own, 1)
            begun.set()
            assert moved.wait(30)
            door.transition(world.model("UetWorker"), shared, "task_completed", actor=THE_SYSTEM)

    with thread_of(older):
        assert begun.wait(10)
        walk(shared, 1)
        moved.set()
    catch_up()

    in_order(ordered())


def test_writers_at_once_leave_no_gap_and_no_disorder() -> None:
    workers = [uet_worker() for _ in range(3)]
    over = threading.Event()

    def write(seed: int) -> None:
        order = random.Random(seed)
        for _ in range(15):
            with transaction.atomic():
                for worker in sorted(workers, key=lambda _worker: 0):
                    current = world.model("UetWorker").objects.select_for_update().get(pk=worker)
                    trigger = "task_completed" if current.state == "BUSY" else "task_assigned"
                    if order.random() < 0.7:
                        door.transition(type(current), worker, trigger, actor=THE_SYSTEM)

    def look() -> None:
        numberer = sequencer().numberer
        while not over.is_set():
            numberer.number()

    with thread_of(look):
        try:
            with thread_of(write, 1), thread_of(write, 2), thread_of(write, 3):
                pass
        finally:
            over.set()
    catch_up()

    in_order(ordered())


def test_a_rolled_back_change_gets_no_position() -> None:
    worker = uet_worker()
    with transaction.atomic():
        walk(worker, 4)
        transaction.set_rollback(True)
    walk(worker, 1)
    catch_up()

    in_order(ordered())


@pytest.mark.sqlite
def test_a_table_that_was_rebuilt_with_other_row_ids_is_numbered_on() -> None:
    walk(uet_worker(), 4)
    catch_up()
    with triggers.lowered(connection), connection.cursor() as cursor:
        cursor.execute("UPDATE statecore_event SET rowid = rowid + 1000")
    walk(uet_worker(), 4)
    catch_up()

    in_order(ordered())


@pytest.mark.postgres
@pytest.mark.parametrize("foreign", [{"seen": "99999999:99999999:"}, {"cluster": "another", "seen": "9:9:"}])
@pytest.mark.parametrize("written_in", ["99999999", "3"])
def test_marks_of_another_server_are_not_believed(foreign: dict[str, str], written_in: str) -> None:
    walk(uet_worker(), 4)
    catch_up()
    with triggers.lowered(connection), connection.cursor() as cursor:
        cursor.execute(f"UPDATE statecore_event SET written_in = '{written_in}'")
    Numbering.objects.update(**foreign)
    for _ in range(2):
        walk(uet_worker(), 4)
        catch_up()

    in_order(ordered())


def test_a_wrong_mark_is_noticed_and_forgotten() -> None:
    walk(uet_worker(), 4)
    catch_up()
    working = sequencer()
    first = Position.objects.get(position=1).event_id
    working.numberer.seen = f"1 {first}" if connection.vendor == "sqlite" else "3:3:"
    Numbering.objects.update(seen=working.numberer.seen)
    with pytest.raises(IntegrityError):
        working.round()
    walk(uet_worker(), 4)
    while working.round():
        pass

    in_order(ordered())


@pytest.mark.postgres
@pytest.mark.parametrize("analyzed", [False, True])
def test_looking_for_what_is_new_reads_no_old_rows(analyzed: bool) -> None:
    Phase.objects.create(id="PH-large")
    tasks = [{"id": f"task-{n}"} for n in range(2_000)]
    plan = {"id": "large", "phase": "PH-large", "workstreams": [{"id": "large", "tasks": tasks}], "start": True}
    scheduling.submit(plan, actor=THE_SYSTEM)
    catch_up()
    if analyzed:
        swept(Event)
    with connection.cursor() as cursor:
        new = commit_order.unnumbered(Numbering.objects.get().seen)
        cursor.execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON) SELECT 1 FROM statecore_event AS e WHERE {new.condition}", new.params
        )
        ((told,),) = cursor.fetchall()

    assert told[0]["Plan"]["Plan Rows"] < len(tasks) / 10, "so the index is taken, however long the journal is"
    assert "event_written_in" in str(told)
    assert "'Rows Removed by Filter'" not in str(told)


@pytest.mark.postgres
def test_the_whole_journal_is_looked_at_once_where_there_is_no_mark() -> None:
    walk(uet_worker(), 4)
    catch_up()
    Numbering.objects.update(seen="")
    catch_up()

    assert Numbering.objects.get().seen
    walk(uet_worker(), 4)
    catch_up()
    in_order(ordered())


def test_a_position_is_never_changed_and_never_given_by_anybody_else() -> None:
    walk(uet_worker(), 1)
    catch_up()

    with pytest.raises(IntegrityError, match="append-only"):
        Position.objects.filter(position=1).update(entity_type="task")
    with pytest.raises(IntegrityError, match="deleted"):
        Position.objects.filter(position=1).delete()
    with pytest.raises(IntegrityError, match="only the door"):
        Position.objects.create(position=99, event_id="evt_x", entity_type="task", kind="normal")
