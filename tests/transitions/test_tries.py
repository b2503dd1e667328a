"""A retry keeps the name: the successor's id is the name with the number of the try."""

from __future__ import annotations

import pytest

from statecore import transitions
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.workstream import Workstream
from tests.support import world
from tests.work.agents import states, submit, task, workstream

pytestmark = pytest.mark.django_db


def retry(name: str) -> str:
    world.forced(Task.objects.get(pk=name), "failed")
    return str(transitions.retry(Task, name, actor=world.operator()).entity)


def test_the_tries_of_a_task_are_numbered() -> None:
    submit(workstream("w", "build", "other"))
    assert [retry("build"), retry("build:2"), retry("build:3")] == ["task build:2", "task build:3", "task build:4"]


def test_a_name_with_a_number_of_its_own_is_kept() -> None:
    submit(workstream("w", "pytest:7", "other"))
    assert [retry("pytest:7"), retry("pytest:7:2")] == ["task pytest:7:2", "task pytest:7:3"]


@pytest.mark.parametrize("name", ["taken", "x" * 63])
def test_a_taken_or_too_long_name_is_replaced_by_a_new_id(name: str) -> None:
    submit(workstream("w", name, "taken:2", "other"))
    assert retry(name).startswith("task task_")


def test_the_parts_of_a_retried_run_keep_their_names() -> None:
    submit(workstream("w", "a", task("b", "a")))
    transitions.transition(Run, "r", "run_canceled", actor=world.operator())
    assert transitions.retry(Run, "r", actor=world.operator()).entity.pk == "r:2"
    assert {name for name, state in states(Task).items() if state == "pending"} == {"a:2", "b:2"}
    assert Workstream.objects.get(pk="w:2").run_id == "r:2"
    assert list(Task.objects.get(pk="b:2").depends_on.values_list("pk", flat=True)) == ["a:2"]
