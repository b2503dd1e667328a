"""The tasks of a run as a table, its comparison with another run, and the progress of runs in their list."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from statecore import scheduling, transitions
from statecore.dashboard.queries import run_progress, run_tasks
from statecore.kernel.actors import THE_SYSTEM
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.records import Phase
from statecore.storage import triggers
from tests.dashboard.scene import Scene
from tests.support import world
from tests.support.plans import insert_copies


@pytest.fixture
def viewer(people: dict[str, Any], client: Client) -> Client:
    cache.clear()
    client.force_login(people["viewer"])
    return client


def submit(run: str, *durations: int, fails: int | None = None) -> Run:
    """A run whose tasks took so many seconds, after they were queued for as many."""
    Phase.objects.get_or_create(id="PH-runs")
    tasks = [{"id": f"{run}-t{number}", "required_capabilities": ["x"]} for number in range(len(durations))]
    plan = {"id": run, "phase": "PH-runs", "start": True, "workstreams": [{"id": f"{run}-w", "tasks": tasks}]}
    scheduling.submit_plan(plan, actor=THE_SYSTEM)
    for number, seconds in enumerate(durations):
        done = world.forced(Task.objects.get(pk=f"{run}-t{number}"), "failed" if number == fails else "completed")
        with triggers.disabled(connection):
            end = done.completed_at + timedelta(seconds=2 * seconds)
            rows = Task.objects.filter(pk=done.pk)
            rows.update(started_at=done.created_at + timedelta(seconds=seconds), completed_at=end)
    return Run.objects.get(pk=run)


def listed(client: Client, run: str, **params: Any) -> list[str]:
    return [task.pk for task in client.get(reverse("console:run_tasks", args=[run]), params).context["rows"]]


def test_tasks_are_sorted_by_their_times(viewer: Client) -> None:
    submit("timed", 20, 300, 100)

    assert listed(viewer, "timed") == ["timed-t0", "timed-t1", "timed-t2"]
    for sort in ("-duration", "-wait", "-started"):
        assert listed(viewer, "timed", sort=sort) == ["timed-t1", "timed-t2", "timed-t0"], sort
    page = viewer.get(reverse("console:run_tasks", args=["timed"]), {"sort": "-wait"}).content.decode()
    assert "5 min" in page


def test_tasks_are_found_by_state_error_and_worker(viewer: Client) -> None:
    submit("mixed", 10, 20, 30, fails=1)
    with triggers.disabled(connection):
        Task.objects.filter(pk="mixed-t1").update(last_error="no space left on device", last_worker="w7")

    assert listed(viewer, "mixed", state="failed") == ["mixed-t1"]
    assert listed(viewer, "mixed", find="No space") == listed(viewer, "mixed", find="w7") == ["mixed-t1"]
    assert listed(viewer, "mixed", find="t2") == ["mixed-t2"]
    assert listed(viewer, "mixed", find="nothing like it") == []


@pytest.mark.parametrize("sort", run_tasks.SORTS)
def test_pages_have_every_task_once(sort: str, viewer: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    insert_copies(scene.first, 9)
    monkeypatch.setattr(run_tasks, "PAGE_SIZE", 4)
    seen, more, statements = [], f"?sort={sort}", []
    while more:
        with CaptureQueriesContext(connection) as made:
            page = viewer.get(reverse("console:run_tasks", args=["scene"]) + more)
        statements.append(len(made))
        seen += [task.pk for task in page.context["rows"]]
        more = page.context["more"]

    assert sorted(seen) == sorted(Task.objects.filter(run="scene").values_list("pk", flat=True))
    assert len(seen) == 12
    # With those of the frame, of the first request, which stores the activity of the session, and of the time limit.
    assert max(statements) <= 16


def test_a_retried_task_is_listed_as_its_newest_try(viewer: Client) -> None:
    submit("tries", 10, 20, fails=0)
    again = transitions.retry(Task, "tries-t0", actor=THE_SYSTEM).entity

    assert listed(viewer, "tries") == [again.pk, "tries-t1"]


def test_a_key_that_makes_no_sense_shows_the_first_page(viewer: Client) -> None:
    submit("odd", 10)

    for after in ("x", "x~", "~", "1e9~odd-t0"):
        assert listed(viewer, "odd", sort="-duration", after=after) == ["odd-t0"]


def test_a_run_is_compared_with_another(viewer: Client) -> None:
    submit("old", 10, 10, 60, 10)
    submit("new", 10, 50, 20, fails=0)

    page = viewer.get(reverse("console:run_compare", args=["new"]))

    assert page.context["there"].pk == "old"  # the newest other run of the phase
    found = {each.title: [row.name for row in each.rows] for each in page.context["sections"]}
    assert found == {
        "Failed here, not in old": ["t0"],
        "Slower than in old": ["t1"],
        "Faster than in old": ["t2"],
        "Only in old": ["t3"],
    }
    assert viewer.get(reverse("console:run_compare", args=["new"]), {"with": "missing"}).status_code == 404


def test_the_list_of_runs_shows_progress_failures_and_duration(viewer: Client) -> None:
    submit("listed", 10, 20, 30, fails=1)

    page = viewer.get(reverse("console:machine", args=["runs"]), {"q": "listed"}).content.decode()

    assert "3 of 3" in page
    assert "1 failed" in page
    assert f"{reverse('console:run_tasks', args=['listed'])}?state=failed" in page


def test_the_progress_of_a_finished_run_is_counted_once(viewer: Client) -> None:
    run = world.forced(submit("over", 10), "canceled")
    assert run_progress.read_progress([run])["over"] == (1, 1, 0)

    with CaptureQueriesContext(connection) as statements:
        assert run_progress.read_progress([run])["over"] == (1, 1, 0)
    assert not [each for each in statements.captured_queries if "statecore_task" in each["sql"]]
