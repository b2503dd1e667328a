"""What an estimate reads: open tasks, free workers and durations of finished tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from statecore import scheduling
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.read_models import board, estimates
from statecore.records import Phase
from statecore.storage import triggers
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.board.test_stats import clear_caches
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _without_cache() -> None:
    cache.clear()


def submit(run: str, tasks: int) -> Run:
    """A run of two workstreams: the tasks of the first depend on nothing, those of the second on all of the first."""
    Phase.objects.get_or_create(id="PH")
    streams: list[dict[str, Any]] = [
        {"id": f"{run}-w1", "tasks": [{"id": f"{run}-a{number}"} for number in range(tasks)]},
        {"id": f"{run}-w2", "depends_on": [f"{run}-w1"], "tasks": [{"id": f"{run}-b1"}]},
    ]
    scheduling.submit_plan({"id": run, "phase": "PH", "start": True, "workstreams": streams}, actor=THE_SYSTEM)
    return Run.objects.get(pk=run)


def complete(run: Run, count: int, seconds: float) -> None:
    """Completes the first tasks; each is recorded to have taken so long."""
    some = [f"{run.pk}-a{number}" for number in range(count)]
    for task in Task.objects.filter(pk__in=some):
        world.forced(task, "completed")
    took = timedelta(seconds=seconds)
    with triggers.disabled(connection):
        done = Task.objects.filter(pk__in=some)
        done.update(started_at=F("completed_at") - took, created_at=F("created_at") - took)


def test_the_end_is_estimated_from_finished_tasks_and_free_workers() -> None:
    run = submit("band", 10)
    complete(run, 6, seconds=60)
    world.idle_worker(max_concurrent_tasks=2)

    found = estimates.estimate_run(run)

    assert (found.tasks_left, found.undecided, found.basis) == (5, 0, "finished tasks of this run")
    # Four tasks by two slots, then the second workstream.
    assert (found.likely - found.at).total_seconds() == pytest.approx(180, rel=0.01)
    assert found.earliest <= found.likely <= found.latest


def test_what_depends_on_a_failure_waits_for_a_decision() -> None:
    run = submit("lost", 8)
    complete(run, 6, seconds=60)
    world.forced(Task.objects.get(pk="lost-a7"), "failed")
    world.idle_worker()

    found = estimates.estimate_run(run)

    assert (found.tasks_left, found.undecided) == (1, 2)  # the failed task, and the second workstream


def test_the_reason_is_stated_where_the_end_is_unknown() -> None:
    run = submit("unknown", 2)
    assert estimates.estimate_run(run).reason == "no worker is active"
    world.idle_worker()
    cache.clear()
    assert estimates.estimate_run(run).reason == "no task has finished yet"
    world.forced(run, "canceled")

    assert estimates.estimate_run(Run.objects.get(pk="unknown")).reason == "the run is canceled"


def test_the_number_of_statements_does_not_grow_with_the_run() -> None:
    world.idle_worker()
    counts = []
    for name, tasks in (("small", 8), ("large", 40)):
        run = submit(name, tasks)
        complete(run, 6, seconds=60)
        with CaptureQueriesContext(connection) as statements:
            assert estimates.estimate_run(run).band
        counts.append(len(statements))

    assert counts[0] == counts[1] <= 8


def test_the_estimate_is_computed_once_for_all_viewers() -> None:
    run = submit("once", 2)
    first = estimates.estimate_run(run)
    with CaptureQueriesContext(connection) as statements:
        assert estimates.estimate_run(run) == first
    assert not [each for each in statements.captured_queries if "statecore_task" in each["sql"]]


def test_the_board_has_the_ends_of_three_runs_and_reads_them_once_for_all_viewers() -> None:
    world.idle_worker()
    for name in ("first", "second", "third", "fourth"):
        complete(submit(name, 8), 6, seconds=60)
    clear_caches()
    with CaptureQueriesContext(connection) as statements:
        ends = board.get_stats()["run_ends"]

    assert [each["run"] for each in ends] == ["fourth", "third", "second"]
    assert all(each["earliest"] <= each["likely"] <= each["latest"] for each in ends)
    assert len([each for each in statements if '"statecore_task"."completed_at"' in each["sql"]]) == 3
    with CaptureQueriesContext(connection) as statements:
        assert board.get_stats({"run", "workstream", "task"})["run_ends"] == ends
    assert not [each for each in statements if "statecore_run" in each["sql"]]
    assert board.get_stats({"run", "workstream"})["run_ends"] == []


def test_the_api_returns_the_estimate() -> None:
    run = submit("served", 10)
    complete(run, 6, seconds=60)
    world.idle_worker()

    found = expect_ok(Caller("read").get("runs/served/estimate/"))

    assert found["earliest"] <= found["likely"] <= found["latest"]
    assert (found["tasks_left"], found["reason"]) == (5, "")
    expect_refusal(Caller("read").get("runs/missing/estimate/"), 404, "not_found")
