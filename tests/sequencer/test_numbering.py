"""Positions are dense and complete, keep each entity's sequence, and place causes before effects."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from statecore import scheduling, transitions
from statecore.journal import Event, Numbering, Position, commit_order
from statecore.kernel.actors import THE_SYSTEM
from statecore.records import Phase
from statecore.storage import triggers
from tests.support import world
from tests.support.plans import vacuum_tables
from tests.support.roles import PREFIX
from tests.support.sequencer import catch_up, ordered, sequencer

pytestmark = pytest.mark.django_db(transaction=True)


def transition_repeatedly(worker_id: str, count: int) -> None:
    for number in range(count):
        trigger = "task_completed" if number % 2 else "task_assigned"
        transitions.transition(world.model("UetWorker"), worker_id, trigger, actor=THE_SYSTEM)


def uet_worker() -> str:
    worker = world.created("UetWorker", worker_type="test")
    return world.fire(worker, "initialization_completed").pk if worker.state == "SPAWNING" else worker.pk


def assert_in_order(events: list[str]) -> None:
    """Assert that every event occurs once, in its entity's sequence, and after its cause."""
    rows = {row.event_id: row for row in Event.objects.all()}
    assert sorted(events) == sorted(rows)
    seen: dict[tuple[str, str], int] = {}
    seen_events: set[str] = set()
    for event_id in events:
        row = rows[event_id]
        assert row.sequence == seen.get((row.entity_type, row.entity_id), 0) + 1
        seen[row.entity_type, row.entity_id] = row.sequence
        assert not row.caused_by or row.caused_by in seen_events
        seen_events.add(event_id)


@contextmanager
def run_in_thread(function, *args) -> Iterator[threading.Thread]:
    def run() -> None:
        try:
            function(*args)
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
    assert_in_order(ordered())
    assert Numbering.objects.get().head == len(ordered())


def test_events_of_one_transaction_keep_the_order_in_which_they_happened() -> None:
    worker = uet_worker()
    with transaction.atomic():
        transition_repeatedly(worker, 40)
        world.run()
        transition_repeatedly(worker, 40)
    catch_up()

    assert_in_order(ordered())


def test_a_cascade_is_numbered_after_its_cause() -> None:
    task = world.running_task()
    cause = transitions.transition(
        type(task), task.pk, "execution_failed", actor=THE_SYSTEM, params={"error": "no", "attempt": task.attempt}
    ).entry
    assert cause is not None
    effect = transitions.transition(
        world.model("Worker"), task.worker_id, "shutdown_requested", actor=THE_SYSTEM, cause=cause
    ).entry
    assert effect is not None
    catch_up()

    events = ordered()
    assert events.index(cause.event_id) < events.index(effect.event_id)


@pytest.mark.postgres
def test_an_open_transaction_delays_no_other_and_is_not_missed() -> None:
    busy, late = uet_worker(), uet_worker()
    written, may_commit = threading.Event(), threading.Event()

    def stay_open() -> None:
        with transaction.atomic():
            transition_repeatedly(late, 3)
            written.set()
            assert may_commit.wait(30)

    catch_up()
    with run_in_thread(stay_open):
        assert written.wait(10)
        for _round in range(20):
            transition_repeatedly(busy, 2)
            catch_up()
        before = ordered()
        assert len(before) == Event.objects.count()
        may_commit.set()
    transition_repeatedly(busy, 2)
    catch_up()

    assert len(ordered()) == len(before) + 5
    assert_in_order(ordered())


@pytest.mark.postgres
def test_a_transaction_is_numbered_after_the_newer_one_it_waited_for() -> None:
    """The older transaction has the lower id but writes the entity's later event."""
    shared, own = uet_worker(), uet_worker()
    started, transitioned = threading.Event(), threading.Event()

    def older() -> None:
        with transaction.atomic():
            transition_repeatedly(own, 1)
            started.set()
            assert transitioned.wait(30)
            transitions.transition(world.model("UetWorker"), shared, "task_completed", actor=THE_SYSTEM)

    with run_in_thread(older):
        assert started.wait(10)
        transition_repeatedly(shared, 1)
        transitioned.set()
    catch_up()

    assert_in_order(ordered())


def test_concurrent_writers_leave_no_gap_and_no_disorder() -> None:
    workers = [uet_worker() for _ in range(3)]
    stop = threading.Event()

    def write(seed: int) -> None:
        order = random.Random(seed)
        for _ in range(15):
            with transaction.atomic():
                for worker in sorted(workers, key=lambda _worker: 0):
                    current = world.model("UetWorker").objects.select_for_update().get(pk=worker)
                    trigger = "task_completed" if current.state == "BUSY" else "task_assigned"
                    if order.random() < 0.7:
                        transitions.transition(type(current), worker, trigger, actor=THE_SYSTEM)

    def number_repeatedly() -> None:
        numberer = sequencer().numberer
        while not stop.is_set():
            numberer.number_new_events()

    with run_in_thread(number_repeatedly):
        try:
            with run_in_thread(write, 1), run_in_thread(write, 2), run_in_thread(write, 3):
                pass
        finally:
            stop.set()
    catch_up()

    assert_in_order(ordered())


def test_a_rolled_back_change_gets_no_position() -> None:
    worker = uet_worker()
    with transaction.atomic():
        transition_repeatedly(worker, 4)
        transaction.set_rollback(True)
    transition_repeatedly(worker, 1)
    catch_up()

    assert_in_order(ordered())


@pytest.mark.sqlite
def test_numbering_continues_after_row_ids_changed() -> None:
    transition_repeatedly(uet_worker(), 4)
    catch_up()
    with triggers.disabled(connection), connection.cursor() as cursor:
        cursor.execute("UPDATE statecore_event SET rowid = rowid + 1000")
    transition_repeatedly(uet_worker(), 4)
    catch_up()

    assert_in_order(ordered())


@pytest.mark.postgres
@pytest.mark.parametrize("foreign", [{"seen": "99999999:99999999:"}, {"cluster": "another", "seen": "9:9:"}])
@pytest.mark.parametrize("written_in", ["99999999", "3"])
def test_marks_of_another_server_are_ignored(foreign: dict[str, str], written_in: str) -> None:
    transition_repeatedly(uet_worker(), 4)
    catch_up()
    with triggers.disabled(connection), connection.cursor() as cursor:
        cursor.execute(f"UPDATE statecore_event SET written_in = '{written_in}'")
    Numbering.objects.update(**foreign)
    for _ in range(2):
        transition_repeatedly(uet_worker(), 4)
        catch_up()

    assert_in_order(ordered())


@pytest.mark.postgres
def test_the_known_server_is_kept_while_its_identifier_cannot_be_read() -> None:
    transition_repeatedly(uet_worker(), 4)
    catch_up()
    Numbering.objects.update(cluster="another")
    with identifier_unreadable():
        call_command("migrate", verbosity=0)
        assert commit_order.load_numbering().cluster == "another"
        transition_repeatedly(uet_worker(), 4)
        catch_up()
    call_command("migrate", verbosity=0)

    assert commit_order.load_numbering().cluster == commit_order.get_server_identifier() != ""
    assert_in_order(ordered())


@contextmanager
def identifier_unreadable() -> Iterator[None]:
    """Acts as the owner of the tables, who is no superuser, without the right to read the id of the server."""
    function = "EXECUTE ON FUNCTION pg_control_system()"
    with connection.cursor() as cursor:
        cursor.execute(f"REVOKE {function} FROM PUBLIC")
        cursor.execute(f"SET ROLE {PREFIX}_owner")
        try:
            assert commit_order.get_server_identifier() == ""
            yield
        finally:
            cursor.execute("RESET ROLE")
            cursor.execute(f"GRANT {function} TO PUBLIC")


def test_a_wrong_mark_is_detected_and_discarded() -> None:
    transition_repeatedly(uet_worker(), 4)
    catch_up()
    working = sequencer()
    first = Position.objects.get(position=1).event_id
    working.numberer.seen = f"1 {first}" if connection.vendor == "sqlite" else "3:3:"
    Numbering.objects.update(seen=working.numberer.seen)
    with pytest.raises(IntegrityError):
        working.run_round()
    transition_repeatedly(uet_worker(), 4)
    while working.run_round():
        pass

    assert_in_order(ordered())


def test_a_mark_of_the_other_kind_of_database_is_discarded() -> None:
    transition_repeatedly(uet_worker(), 4)
    catch_up()
    mark = "3:3:" if connection.vendor == "sqlite" else f"1 {Position.objects.get(position=1).event_id}"
    Numbering.objects.update(seen=mark, cluster="")

    assert commit_order.load_numbering().seen == ""
    transition_repeatedly(uet_worker(), 4)
    catch_up()
    assert_in_order(ordered())


@pytest.mark.postgres
@pytest.mark.parametrize("analyzed", [False, True])
def test_finding_new_events_reads_no_old_rows(analyzed: bool) -> None:
    Phase.objects.create(id="PH-large")
    tasks = [{"id": f"task-{n}"} for n in range(2_000)]
    plan = {"id": "large", "phase": "PH-large", "workstreams": [{"id": "large", "tasks": tasks}], "start": True}
    scheduling.submit_plan(plan, actor=THE_SYSTEM)
    catch_up()
    if analyzed:
        vacuum_tables(Event)
    with connection.cursor() as cursor:
        new = commit_order.select_unnumbered(Numbering.objects.get().seen)
        cursor.execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON) SELECT 1 FROM statecore_event AS e WHERE {new.condition}", new.params
        )
        ((seen_events,),) = cursor.fetchall()

    assert seen_events[0]["Plan"]["Plan Rows"] < len(tasks) / 10, "the index is used for a journal of any length"
    assert "event_written_in" in str(seen_events)
    assert "'Rows Removed by Filter'" not in str(seen_events)


@pytest.mark.postgres
def test_the_whole_journal_is_scanned_once_without_a_mark() -> None:
    transition_repeatedly(uet_worker(), 4)
    catch_up()
    Numbering.objects.update(seen="")
    catch_up()

    assert Numbering.objects.get().seen
    transition_repeatedly(uet_worker(), 4)
    catch_up()
    assert_in_order(ordered())


def test_positions_are_immutable_and_assigned_only_by_the_sequencer() -> None:
    transition_repeatedly(uet_worker(), 1)
    catch_up()

    with pytest.raises(IntegrityError, match="append-only"):
        Position.objects.filter(position=1).update(entity_type="task")
    with pytest.raises(IntegrityError, match="deleted"):
        Position.objects.filter(position=1).delete()
    with pytest.raises(IntegrityError, match="only the transition service"):
        Position.objects.create(position=99, event_id="evt_x", entity_type="task", kind="normal")
