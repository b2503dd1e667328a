"""The numbers on the wall: right, cheap, and told as differences that add up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from statecore import board, stuck
from statecore.board import asking
from statecore.board.overdue import kept
from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.kernel.refusals import Invalid
from statecore.records import Alert
from statecore.records.alert import acknowledge
from statecore.records.position import head
from statecore.sinks.counters import Counters
from tests.machines import worlds
from tests.support import world
from tests.support.sequencer import catch_up


@pytest.fixture(autouse=True)
def _fresh() -> None:
    kept.forget()


@pytest.mark.django_db(transaction=True)
def test_counts_and_rates() -> None:
    for _ in range(3):
        world.queued_task()
    world.forced(world.queued_task(), "cancelled")
    catch_up(Counters())

    told = board.stats()
    assert told["position"] == head()
    assert {state: count for state, count in told["counts"]["task"].items() if count} == {"queued": 3, "cancelled": 1}
    assert told["counts"]["patch_ledger"].keys() >= {"created", "committed"}
    assert sum(minute["transitions"] for minute in told["minutes"].values()) == head()
    assert sum(minute["overrides"] for minute in told["minutes"].values()) == 1
    assert told["rates"]["override_rate"] == pytest.approx(1 / head(), abs=1e-6)
    assert told["rates"]["machines"]["task"]["transitions_per_minute"] == pytest.approx(9 / 5)
    assert (told["stuck"]["total"], told["stuck"]["machines"]) == (0, {})


@pytest.mark.django_db(transaction=True)
def test_who_sees_some_machines_is_told_the_sums_of_these() -> None:
    world.queued_task()
    world.forced(world.idle_worker(), "shutdown")
    catch_up(Counters())

    told, whole = board.stats({"task"}), board.stats()
    assert (set(told["counts"]), set(told["rates"]["machines"])) == ({"task"}, {"task"})
    assert sum(minute["transitions"] for minute in told["minutes"].values()) == 2
    assert sum(minute["overrides"] for minute in told["minutes"].values()) == 0
    assert (told["rates"]["override_rate"], whole["rates"]["override_rate"] > 0) == (0.0, True)
    assert told["rates"]["transitions_per_minute"] == pytest.approx(2 / 5)
    assert told["rates"]["machines"]["task"] == whole["rates"]["machines"]["task"]
    of_all = board.stats([flow.entity_type for flow in registry.flows()])
    assert of_all["rates"] == whole["rates"]
    assert of_all["minutes"] == whole["minutes"]


def a_workstream_that_lost_a_task() -> Any:
    workstream = world.forced(world.workstream(), "executing")
    world.forced(world.task(workstream=workstream), "failed")
    return workstream


@pytest.mark.django_db(transaction=True)
def test_who_waits_for_a_decision_is_listed_though_not_past_a_deadline() -> None:
    a_workstream_that_lost_a_task()

    told = board.stats()["stuck"]
    assert (told["total"], told["waiting"], told["listed"]) == (0, {"workstream": 1}, 1)
    assert board.stats({"task"})["stuck"]["listed"] == 0


@pytest.mark.django_db(transaction=True)
def test_who_waits_for_an_approval_is_listed_though_not_past_a_deadline(settings: Any) -> None:
    settings.STATECORE_RECOVERY = {"supervised_job": "approval"}
    worker = world.created("SupervisedWorker", id="sw1", workspace_id="space")
    job = world.fire(world.created("SupervisedJob", task_description="sort"), "validate")
    world.fire(job, "allocate_resources", workers=["sw1"])
    world.fire(worker, "terminate")

    told = board.stats()["stuck"]
    assert (told["total"], told["waiting"], told["listed"]) == (0, {"supervised_job": 1}, 1)


@pytest.mark.django_db(transaction=True)
def test_as_many_are_listed_as_the_list_has() -> None:
    """Who is late and waits for a decision is counted once."""
    with worlds.fixed_clock() as clock:
        for _ in range(3):
            a_workstream_that_lost_a_task()
        clock.shift(timedelta(hours=5))
        a_workstream_that_lost_a_task()

        told = board.stats()["stuck"]
        assert (told["waiting"], told["total"] > 0) == ({"workstream": 4}, True)
        assert told["listed"] == len(stuck.stuck())


@pytest.mark.django_db(transaction=True)
def test_of_too_many_who_wait_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST", 2)
    for _ in range(3):
        a_workstream_that_lost_a_task()

    told = board.stats()["stuck"]
    assert (told["listed"], told["or_more"]) == (2, True)
    assert board.stats({"task"})["stuck"]["or_more"] is False


def asked() -> int:
    kept.forget()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        board.stats()
    return len(queries)


@pytest.mark.django_db(transaction=True)
def test_no_machine_is_counted_and_what_is_stuck_is_asked_once_for_all() -> None:
    world.queued_task()
    catch_up(Counters())
    first = asked()
    for _ in range(5):
        world.queued_task()
    catch_up(Counters())
    assert asked() == first

    with CaptureQueriesContext(connection) as queries:
        board.stats()
    assert len(queries) == 3
    assert not any("statecore_task" in query["sql"] for query in queries)


@pytest.mark.django_db(transaction=True)
def test_alerts_are_listed_and_acknowledged_once_with_a_note() -> None:
    raised = [
        Alert.objects.create(rule="r", key=str(n), severity="critical", detail="d", opened_at=now()) for n in range(3)
    ]
    Alert.objects.filter(pk=raised[0].pk).update(resolved_at=now())

    assert [each["key"] for each in board.alerts().alerts] == ["2", "1", "0"]
    assert [each["key"] for each in board.alerts(is_open=True).alerts] == ["2", "1"]
    page = board.alerts(limit=2)
    assert page.more
    assert [each["key"] for each in board.alerts(before=page.alerts[-1]["id"]).alerts] == ["0"]

    with pytest.raises(Invalid):
        acknowledge(raised[1].pk, "ada", "x" * 2_001)
    assert acknowledge(raised[1].pk, "ada", "looking at it")
    assert not acknowledge(raised[1].pk, "bob", "me too")
    (seen,) = board.alerts(acknowledged=True).alerts
    assert (seen["acknowledged_by"], seen["note"]) == ("ada", "looking at it")
    assert board.stats()["alerts"] == {"open": 2, "critical": 2, "unacknowledged": 1}


trees: Any = st.recursive(
    st.integers(0, 3), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8
)
roots = st.dictionaries(st.sampled_from("abc"), trees, max_size=3)


@given(roots, roots)
def test_a_patch_leads_from_one_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert board.patched(old, board.patch_between(old, new)) == new
    assert board.patch_between(new, new) == {}
