"""Looking for gates and patches costs little, however many are due and however many wait for something else."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from statecore.executors import due, patches
from statecore.executors.due import BATCH, STRETCH, WALKS
from statecore.machines.patch_ledger import State
from statecore.machines.task import Task
from tests.executors.support import executing, gate
from tests.support import world
from tests.support.plans import copied, plan_of, planned_as_if_big, steps, swept

pytestmark = pytest.mark.django_db

MANY = 5_000


def linked(link: Any, task: Any, of: Any) -> None:
    """Each copy of a task to the copy of its gate."""
    table = link.through._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} (task_id, testgate_id) SELECT id, %s || substr(id, %s) FROM statecore_task "
            f"WHERE id LIKE %s",
            [of.pk, len(task.pk) + 1, f"{task.pk}-%"],
        )


@pytest.fixture
def crowd(commands: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Thousands of each kind are due, and thousands more wait for a task that is not there yet, or for ever."""
    for walk in WALKS:
        monkeypatch.setattr(walk, "place", None)
    swept()
    workstream, dead, validated = executing(), world.workstream(), world.workstream()
    early, left = gate(workstream=workstream), gate(workstream=dead)
    exit_, entry, own = gate(workstream=workstream), gate(workstream=workstream), gate(workstream=validated)
    done = world.forced(world.task(workstream=workstream, gates=[exit_.pk]), "validating")
    waits = world.task(workstream=workstream, entry_gates=[entry.pk])
    world.task(workstream=workstream, gates=[early.pk])
    world.forced(validated, "validating")
    world.forced(dead, "failed")
    for row in (exit_, entry, own, early, left, done, waits):
        copied(row, MANY)
    linked(Task.gates, done, exit_)
    linked(Task.entry_gates, waits, entry)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return [exit_, entry, own]


def looks() -> dict[str, Any]:
    found = {"left behind": due.left_behind()[:BATCH], "reruns": due.reruns()[:BATCH]}
    for walk in WALKS:
        found[walk.along.__name__] = walk.gates()
        found[f"{walk.along.__name__}, whatever they wait for"] = walk.gates(met=False)
    return found


@pytest.mark.postgres
def test_on_postgresql_each_look_is_bounded(crowd: list[Any]) -> None:
    planned_as_if_big()
    for name, look in looks().items():
        plan = plan_of(look)
        read = sum(node["Actual Rows"] * node["Actual Loops"] for node in plan)
        # Copies are all of one moment, so that a stretch of them is sorted: the dearest there is.
        assert read < 5 * MANY, (name, plan)
        assert not [node for node in plan if node["Node Type"] == "Seq Scan"], (name, plan)


@pytest.mark.sqlite
def test_on_sqlite_each_look_is_bounded(crowd: list[Any]) -> None:
    for name, look in looks().items():
        assert steps(lambda look=look: list(look)) < 500 * STRETCH, (name, look.explain())


def test_many_that_wait_for_something_else_hide_nobody(crowd: list[Any]) -> None:
    """Round by round every kind comes up, and nothing else does."""
    rounds = 4 * MANY // STRETCH
    found = {pk for walk in WALKS for _ in range(rounds) for _since, pk in walk.go_on(BATCH)}

    assert {kind.pk for kind in crowd for pk in found if pk.startswith(kind.pk)} == {kind.pk for kind in crowd}
    assert all(pk.startswith(tuple(kind.pk for kind in crowd)) for pk in found)


@pytest.fixture
def patches_left_behind() -> Any:
    """One patch to be merged, and thousands that nobody waits for any more, each in a workstream that has ended."""
    swept()
    due, left = (world.forced(world.patch(workstream=executing()), State.QUEUED) for _ in range(2))
    dead = world.forced(left.workstream, "failed")
    left.refresh_from_db()
    copied(left, MANY)
    copied(dead, MANY)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE statecore_patchledger SET workstream_id = %s || substr(id, %s) WHERE id LIKE %s",
            [dead.pk, len(left.pk) + 1, f"{left.pk}-%"],
        )
        cursor.execute("ANALYZE")
    return due


@pytest.mark.postgres
def test_on_postgresql_looking_for_patches_reads_nothing_that_was_left_behind(patches_left_behind: Any) -> None:
    look = patches.awaited(State.QUEUED)[: patches.BATCH]
    assert list(look) == [patches_left_behind.pk]
    plan = plan_of(look)
    assert "patch_awaited_by_state" in {node.get("Index Name") for node in plan}
    assert plan[0]["Shared Hit Blocks"] + plan[0]["Shared Read Blocks"] < 20, plan


@pytest.mark.sqlite
def test_on_sqlite_looking_for_patches_reads_nothing_that_was_left_behind(patches_left_behind: Any) -> None:
    look = patches.awaited(State.QUEUED)[: patches.BATCH]
    assert steps(lambda: list(look)) < 2_000, look.explain()
    assert list(look) == [patches_left_behind.pk]
