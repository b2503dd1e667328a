"""What waits to be written: nobody takes it for somebody else's, and it is written as it was when it was recorded."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from statecore import door, integrity
from statecore.door.perform import perform
from statecore.journal import Event
from statecore.kernel.links import answered
from statecore.kernel.refusals import ConstraintViolated
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.reactions.tasks import SEEN
from statecore.records import commit_order
from statecore.records.commit_order import EVENTS
from tests.support import world

pytestmark = pytest.mark.django_db


def in_order() -> list[tuple[str, str]]:
    """What happened, as the sequencer would number it."""
    query = f"SELECT e.entity_id, e.trigger FROM {EVENTS} AS e ORDER BY {commit_order.order()}"
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [(entity_id, trigger) for entity_id, trigger in cursor.fetchall()]


def follow(model: Any, entities: list[Any], trigger: str, **params: Any) -> None:
    assert door.follow_up(model, {entity.pk: None for entity in entities}, trigger, params=params) == []


def test_what_the_database_refuses_is_not_taken_for_the_refusal_of_the_next() -> None:
    """The guards of the task are the first to read, so the worker is written while they are asked."""
    worker, task = world.idle_worker(), world.task()

    def too_much_for_the_worker() -> None:
        follow(Worker, [worker], "task_assigned", load=5)
        follow(Task, [task], "scheduler_assigned")

    with pytest.raises(ConstraintViolated):
        perform(too_much_for_the_worker)
    assert Worker.objects.get(pk=worker.pk).state == "idle"
    assert Task.objects.get(pk=task.pk).state == "pending"


def test_a_change_is_written_as_it_was_recorded_though_the_entity_has_moved_on_in_memory() -> None:
    """The patch of the second is read when the first has moved already and is not recorded."""
    worker = world.idle_worker(max_concurrent_tasks=2)
    first = world.running_task(by=worker)
    patch = world.patch(workstream=first.workstream)
    second = world.running_task(by=worker, workstream=first.workstream, patch=patch)

    def both() -> None:
        follow(Task, [first, second], "execution_completed", exit_code=0)
        with answered(SEEN["validation_passed"]):
            follow(Task, [first, second], "validation_passed")

    perform(both)
    assert [Task.objects.get(pk=each.pk).state for each in (first, second)] == ["completed", "validating"]
    triggers = Event.objects.filter(entity_id=first.pk).order_by("sequence").values_list("trigger", flat=True)
    assert list(triggers)[-2:] == ["execution_completed", "validation_passed"]
    findings = [str(finding) for finding in integrity.check_all() if finding.severity == integrity.ERROR]
    assert findings == []


def test_what_is_written_together_keeps_its_order_though_a_row_has_moved_twice() -> None:
    """The second move of the one is for what became of the other, so it comes after that."""
    one, other = world.idle_worker(), world.idle_worker()

    def there_and_back() -> None:
        follow(Worker, [one], "task_assigned", load=1)
        follow(Worker, [other], "task_assigned", load=1)
        follow(Worker, [one], "task_completed", load=0)

    perform(there_and_back)
    moves = [(one.pk, "task_assigned"), (other.pk, "task_assigned"), (one.pk, "task_completed")]
    assert in_order()[-3:] == moves
