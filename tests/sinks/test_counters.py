"""Counters equal a fresh count, also during concurrent writes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction

from statecore import transitions
from statecore.delivery.sinks import counters
from statecore.delivery.sinks.counters import Counters, Difference, reconcile
from statecore.delivery.sinks.counting import add_counts
from statecore.kernel.actors import THE_SYSTEM
from statecore.records import (
    OverrideCount,
    SinkCursor,
    StateCount,
    TransitionCount,
    sink_cursor,
)
from statecore.storage import triggers
from tests.support import world
from tests.support.plans import insert_copies, reads_per_statement, vacuum_tables
from tests.support.sequencer import catch_up, sequencer
from tests.support.waiting import has_lock_waiters, until

pytestmark = pytest.mark.django_db(transaction=True)


def states(entity_type: str) -> dict[str, int]:
    found = StateCount.objects.filter(entity_type=entity_type).exclude(count=0)
    return dict(found.values_list("state", "count"))


@pytest.mark.usefixtures("machines_in_isolation")
def test_states_transitions_and_overrides_are_counted() -> None:
    workstream = world.workstream()
    tasks = [world.task(workstream=workstream) for _ in range(3)]
    world.fire(tasks[0], "scheduler_assigned")
    world.forced(tasks[1], "blocked")
    catch_up(Counters())

    assert states("task") == {"queued": 1, "blocked": 1, "pending": 1}
    assert TransitionCount.objects.get(entity_type="task", from_state="").count == 3
    assert TransitionCount.objects.get(entity_type="task", to_state="queued").count == 1
    assert OverrideCount.objects.get().operator == "ada"


def test_counters_equal_a_fresh_count_during_concurrent_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "ROWS_PER_QUERY", 50)  # rows may change between two batches
    workers = [world.created("UetWorker", worker_type="test") for _ in range(200)]
    stop = threading.Event()

    def write(worker) -> None:
        try:
            world.fire(worker, "initialization_completed")
            while not stop.is_set():
                for trigger in ("task_assigned", "task_completed"):
                    transitions.transition(type(worker), worker.pk, trigger, actor=THE_SYSTEM)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(worker,)) for worker in workers[::50]]
    for thread in threads:
        thread.start()
    working = sequencer(Counters())
    try:
        for _round in range(6):
            working.run_round()
            assert reconcile() == []
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    catch_up(Counters())
    assert reconcile() == []
    assert sum(states("uet_worker").values()) == len(workers)


def test_events_are_not_counted_again_after_a_restart() -> None:
    world.workstream()
    catch_up(Counters())
    before = list(StateCount.objects.values_list("entity_type", "state", "count"))
    catch_up(Counters())

    assert list(StateCount.objects.values_list("entity_type", "state", "count")) == before


def test_a_wrong_counter_is_reported_and_repaired_once() -> None:
    world.task()
    catch_up(Counters())
    world.task()  # not counted yet, so no difference
    StateCount.objects.filter(entity_type="task", state="pending").update(count=7)
    TransitionCount.objects.filter(entity_type="run").delete()

    found = reconcile()

    assert Difference("statecount", ("task", "pending"), 7, 1) in found
    assert Difference("transitioncount", ("run", "", "pending"), 0, 1) in found
    assert reconcile() == []
    assert SinkCursor.objects.get(sink="counters").revision == 1


def test_a_removed_row_is_reported() -> None:
    world.run()
    catch_up(Counters())
    with triggers.disabled(connection), connection.cursor() as cursor:
        cursor.execute("DELETE FROM statecore_run")

    assert reconcile() == [Difference("statecount", ("run", "pending"), 1, 0)]


STRIDE = 20
MOST = {"postgresql": 2 * STRIDE, "sqlite": 100 * STRIDE}  # rows and steps of the most expensive query


@pytest.fixture
def whole_history(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Several batches of events, all counted."""
    monkeypatch.setattr(counters, "ROWS_PER_QUERY", STRIDE)
    workstream = world.workstream()
    tasks = [world.task(workstream=workstream) for _ in range(5 * STRIDE)]
    world.forced(tasks[0], "blocked")
    catch_up(Counters())
    vacuum_tables()
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET enable_seqscan = off")  # as if the tables were big
        yield tasks[-1]
        if connection.vendor == "postgresql":
            cursor.execute("RESET enable_seqscan")


@pytest.mark.usefixtures("machines_in_isolation")
def test_a_fresh_count_works_in_batches_and_is_complete(whole_history: Any) -> None:
    assert reconcile() == []
    insert_copies(whole_history, 50 * STRIDE)
    found: list[Difference] = []

    reads = reads_per_statement(lambda: found.extend(reconcile()))

    assert found == [Difference("statecount", ("task", "pending"), 5 * STRIDE - 1, 55 * STRIDE - 1)]
    assert max(reads)[0] < MOST[connection.vendor], max(reads)


@pytest.mark.postgres
def test_a_repair_and_a_delivery_do_not_deadlock() -> None:
    world.run()
    catch_up(Counters())
    StateCount.objects.update(count=7)

    def repair() -> list[Difference]:
        try:
            return reconcile()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():  # the feed's order: the counters, then the cursor
            add_counts(StateCount, {("run", "pending"): 1})
            repairing = pool.submit(repair)
            until(has_lock_waiters)
            sink_cursor.set_position([Counters.name], 1)
        assert repairing.result(30)

    assert states("run") == {"pending": 2}, "the extra delivery is kept, the wrong count repaired"
