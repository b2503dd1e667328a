"""Pending writes of a unit of work: each is written as recorded, in order, and a refusal names the right one."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from statecore import transitions
from statecore.journal import Event, commit_order
from statecore.journal.commit_order import EVENTS
from statecore.kernel.refusals import ConstraintViolated
from statecore.machines.task import Task, exit_gates_have_passed
from statecore.machines.worker import Worker
from statecore.operations import integrity
from statecore.transitions.unit_of_work import UnitOfWork, run_in_transaction
from tests.support import world

pytestmark = pytest.mark.django_db


def in_order() -> list[tuple[str, str]]:
    """Returns the events in the order in which the sequencer numbers them."""
    query = f"SELECT e.entity_id, e.trigger FROM {EVENTS} AS e ORDER BY {commit_order.get_order_column()}"
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [(entity_id, trigger) for entity_id, trigger in cursor.fetchall()]


def follow(
    work: UnitOfWork,
    model: Any,
    entities: list[Any],
    trigger: str,
    *,
    known: Any = (),
    flush: bool = True,
    **params: Any,
) -> None:
    causes = {entity.pk: None for entity in entities}
    assert transitions.follow_up(work, model, causes, trigger, params=params, known=known, flush=flush) == []


def test_a_refusal_by_the_database_names_the_right_write() -> None:
    """The guards of the task query the database first, which flushes the worker's write."""
    worker, task = world.idle_worker(), world.task()

    def too_much_for_the_worker(work: UnitOfWork) -> None:
        follow(work, Worker, [worker], "task_assigned", load=5)
        follow(work, Task, [task], "scheduler_assigned")

    with pytest.raises(ConstraintViolated):
        run_in_transaction(too_much_for_the_worker)
    assert Worker.objects.get(pk=worker.pk).state == "idle"
    assert Task.objects.get(pk=task.pk).state == "pending"


@pytest.mark.usefixtures("machines_in_isolation")
def test_a_transition_is_written_as_recorded_after_a_later_one_in_memory() -> None:
    """The second task's patch is read while the first transition is pending."""
    worker = world.idle_worker(max_concurrent_tasks=2)
    first = world.running_task(by=worker)
    patch = world.patch(workstream=first.workstream)
    second = world.running_task(by=worker, workstream=first.workstream, patch=patch)

    def both(work: UnitOfWork) -> None:
        follow(work, Task, [first, second], "execution_completed", exit_code=0)
        follow(work, Task, [first, second], "validation_passed", known={exit_gates_have_passed}, flush=False)

    run_in_transaction(both)
    assert [Task.objects.get(pk=each.pk).state for each in (first, second)] == ["completed", "validating"]
    triggers = Event.objects.filter(entity_id=first.pk).order_by("sequence").values_list("trigger", flat=True)
    assert list(triggers)[-2:] == ["execution_completed", "validation_passed"]
    findings = [str(finding) for finding in integrity.check_all() if finding.severity == integrity.ERROR]
    assert findings == []


def test_writes_keep_their_order_when_a_row_changes_twice() -> None:
    """The second transition of one entity depends on the other's, so it comes after that."""
    one, other = world.idle_worker(), world.idle_worker()

    def there_and_back(work: UnitOfWork) -> None:
        follow(work, Worker, [one], "task_assigned", load=1, flush=False)
        follow(work, Worker, [other], "task_assigned", load=1, flush=False)
        follow(work, Worker, [one], "task_completed", load=0, flush=False)

    run_in_transaction(there_and_back)
    moves = [(one.pk, "task_assigned"), (other.pk, "task_assigned"), (one.pk, "task_completed")]
    assert in_order()[-3:] == moves
