"""The dashboard statistics are correct, cheap to query, and sent as patches that add up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.trends import Trends
from statecore.journal.position import head
from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.kernel.refusals import Invalid
from statecore.machines.task import Task
from statecore.read_models import board, stuck
from statecore.read_models.board import run_ends, stuck_counts, task_progress, today
from statecore.records import Alert
from statecore.records.alert import acknowledge
from tests.machines import worlds
from tests.support import world
from tests.support.sequencer import catch_up


@pytest.fixture(autouse=True)
def _without_caches() -> None:
    clear_caches()


def clear_caches() -> None:
    cache.clear()  # of estimates
    for part in (run_ends, stuck_counts, task_progress, today):
        part.cache.clear()


@pytest.mark.django_db(transaction=True)
def test_counts_and_rates() -> None:
    for _ in range(3):
        world.queued_task()
    world.forced(world.queued_task(), "cancelled")
    catch_up(Counters(), Trends())

    stats = board.get_stats()
    assert stats["position"] == head()
    assert {state: count for state, count in stats["counts"]["task"].items() if count} == {"queued": 3, "cancelled": 1}
    assert stats["counts"]["patch_ledger"].keys() >= {"created", "committed"}
    assert sum(minute["transitions"] for minute in stats["minutes"].values()) == head()
    assert sum(minute["overrides"] for minute in stats["minutes"].values()) == 1
    assert stats["rates"]["override_rate"] == pytest.approx(1 / head(), abs=1e-6)
    assert stats["rates"]["machines"]["task"]["transitions_per_minute"] == pytest.approx(9 / 5)
    assert (stats["stuck"]["total"], stats["stuck"]["machines"]) == (0, {})


@pytest.mark.django_db(transaction=True)
def test_stats_limited_to_some_machines_sum_only_those() -> None:
    world.queued_task()
    world.forced(world.idle_worker(), "shutdown")
    catch_up(Counters(), Trends())

    stats, whole = board.get_stats({"task"}), board.get_stats()
    assert (set(stats["counts"]), set(stats["rates"]["machines"])) == ({"task"}, {"task"})
    assert sum(minute["transitions"] for minute in stats["minutes"].values()) == 2
    assert sum(minute["overrides"] for minute in stats["minutes"].values()) == 0
    assert (stats["rates"]["override_rate"], whole["rates"]["override_rate"] > 0) == (0.0, True)
    assert stats["rates"]["transitions_per_minute"] == pytest.approx(2 / 5)
    assert stats["rates"]["machines"]["task"] == whole["rates"]["machines"]["task"]
    all_machines = board.get_stats([flow.entity_type for flow in registry.flows()])
    assert all_machines["rates"] == whole["rates"]
    assert all_machines["minutes"] == whole["minutes"]


@pytest.mark.django_db(transaction=True)
def test_the_progress_is_the_mean_of_the_running_tasks_that_report_it() -> None:
    for number, progress in enumerate([{"fraction": 0.25}, {"fraction": 1.0}, {"detail": "reading"}, None]):
        Task.objects.filter(pk=world.running_task(id=f"t{number}").pk).update(progress=progress)
    Task.objects.filter(pk=world.queued_task().pk).update(progress={"fraction": 0.0})

    assert board.get_stats()["progress"] == {"reported": 2, "percent": 62}
    assert board.get_stats({"run"})["progress"] == {"reported": 0, "percent": 0}


def make_workstream_with_failed_task() -> Any:
    workstream = world.forced(world.workstream(), "executing")
    world.forced(world.task(workstream=workstream), "failed")
    return workstream


@pytest.mark.django_db(transaction=True)
def test_a_row_waiting_for_a_decision_is_listed_before_its_deadline() -> None:
    make_workstream_with_failed_task()

    stats = board.get_stats()["stuck"]
    assert (stats["total"], stats["waiting"], stats["listed"]) == (0, {"workstream": 1}, 1)
    assert board.get_stats({"task"})["stuck"]["listed"] == 0


@pytest.mark.django_db(transaction=True)
def test_a_row_waiting_for_an_approval_is_listed_before_its_deadline(settings: Any) -> None:
    settings.STATECORE_RECOVERY = {"supervised_job": "approval"}
    worker = world.created("SupervisedWorker", id="sw1", workspace_id="space")
    job = world.fire(world.created("SupervisedJob", task_description="sort"), "validate")
    world.fire(job, "allocate_resources", workers=["sw1"])
    world.fire(worker, "terminate")

    stats = board.get_stats()["stuck"]
    assert (stats["total"], stats["waiting"], stats["listed"]) == (0, {"supervised_job": 1}, 1)


@pytest.mark.django_db(transaction=True)
def test_the_stuck_count_equals_the_length_of_the_stuck_list() -> None:
    """A row that is both overdue and waiting for a decision is counted once."""
    with worlds.fixed_clock() as clock:
        for _ in range(3):
            make_workstream_with_failed_task()
        clock.shift(timedelta(hours=5))
        make_workstream_with_failed_task()

        stats = board.get_stats()["stuck"]
        assert (stats["waiting"], stats["total"] > 0) == ({"workstream": 4}, True)
        assert stats["listed"] == len(stuck.list_stuck())


@pytest.mark.django_db(transaction=True)
def test_everything_that_waits_for_a_decision_is_counted() -> None:
    for _ in range(3):
        make_workstream_with_failed_task()

    found = board.get_stats()["stuck"]
    assert (found["listed"], found["waiting"]) == (3, {"workstream": 3})
    assert board.get_stats({"task"})["stuck"]["listed"] == 0


def count_queries() -> int:
    clear_caches()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        board.get_stats()
    return len(queries)


@pytest.mark.django_db(transaction=True)
def test_stats_read_counters_and_query_stuck_rows_once() -> None:
    for _ in range(run_ends.MAX_RUNS):
        world.queued_task()
    catch_up(Counters(), Trends())
    board.get_stats()  # reads what the process keeps, such as the epoch
    first = count_queries()
    for _ in range(5):
        world.queued_task()
    catch_up(Counters(), Trends())
    assert count_queries() == first

    with CaptureQueriesContext(connection) as queries:
        board.get_stats()
    assert len(queries) == 5  # the last one reads the active holds
    assert not any("statecore_task" in query["sql"] for query in queries)


@pytest.mark.django_db(transaction=True)
def test_alerts_are_listed_and_acknowledged_once_with_a_note() -> None:
    raised = [
        Alert.objects.create(rule="r", key=str(n), severity="critical", detail="d", opened_at=now()) for n in range(3)
    ]
    Alert.objects.filter(pk=raised[0].pk).update(resolved_at=now())

    assert [each["key"] for each in board.list_alerts().alerts] == ["2", "1", "0"]
    assert [each["key"] for each in board.list_alerts(is_open=True).alerts] == ["2", "1"]
    page = board.list_alerts(limit=2)
    assert page.more
    assert [each["key"] for each in board.list_alerts(before=page.alerts[-1]["id"]).alerts] == ["0"]

    with pytest.raises(Invalid):
        acknowledge(raised[1].pk, "ada", "x" * 2_001)
    assert acknowledge(raised[1].pk, "ada", "looking at it")
    assert not acknowledge(raised[1].pk, "bob", "me too")
    (seen,) = board.list_alerts(acknowledged=True).alerts
    assert (seen["acknowledged_by"], seen["note"]) == ("ada", "looking at it")
    assert board.get_stats()["alerts"] == {"open": 2, "critical": 2, "unacknowledged": 1, "integrity": 0}


trees: Any = st.recursive(
    st.integers(0, 3), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8
)
roots = st.dictionaries(st.sampled_from("abc"), trees, max_size=3)


@given(roots, roots)
def test_a_patch_turns_the_old_stats_into_the_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert board.apply_merge_patch(old, board.make_merge_patch(old, new)) == new
    assert board.make_merge_patch(new, new) == {}
