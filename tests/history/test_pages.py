"""Pages of the journal: each filter, in both directions, and that an index answers each of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection

from statecore import history
from statecore.history import Filters, pages
from statecore.journal import Event
from statecore.kernel.clock import now
from statecore.kernel.refusals import Invalid
from statecore.records import Position
from statecore.records.position import head
from tests.support import world
from tests.support.plans import swept, words_of_plan
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def story() -> dict[str, Any]:
    """A run with a task that was forced, and a worker beside it."""
    task = world.queued_task()
    world.forced(task, "cancelled")
    worker = world.idle_worker()
    catch_up()
    return {"task": task, "worker": worker}


def told(**filters: Any) -> list[tuple[str, str, str]]:
    found = history.page(Filters(**filters)).events
    assert [each["position"] for each in found] == sorted(each["position"] for each in found)
    return [(each["event"]["entity_type"], each["event"]["entity_id"], each["event"]["to_state"]) for each in found]


def test_all_of_it_in_order(story) -> None:
    assert len(told()) == head()
    assert [each["position"] for each in history.page(Filters()).events] == [*range(1, head() + 1)]


def test_each_filter_finds_its_own(story) -> None:
    task, worker = story["task"], story["worker"]
    forced = ("task", task.pk, "cancelled")

    assert {kind for kind, *_ in told(entity_type=["worker"])} == {"worker"}
    assert {kind for kind, *_ in told(entity_type=["worker", "task"])} == {"worker", "task"}
    assert [state for *_, state in told(entity=[worker.pk])] == ["initializing", "idle"]
    assert told(entity=[worker.pk], entity_type=["task"]) == []
    assert {pk for _, pk, _ in told(run=[task.run_id])} == {task.run_id, task.workstream_id, task.pk}
    assert told(actor=["ada"]) == told(kind=["override"]) == [forced]
    assert forced in told(severity=["warning"])
    assert told(severity=["warning"], entity_type=["worker"]) == []
    assert told(run=[""]) == []


def test_filters_that_mean_nothing_are_refused(db) -> None:
    with pytest.raises(Invalid) as refused:
        history.page(Filters(severity=["loud"], entity_type=["cat"]))
    assert refused.value.facts["errors"].keys() == {"severity", "entity_type"}


def test_a_page_after_the_other_has_everything_once(story) -> None:
    seen: list[int] = []
    more = True
    while more:
        found = history.page(Filters(), after=seen[-1] if seen else 0, limit=3)
        seen += [each["position"] for each in found.events]
        more = found.more
    assert seen == [*range(1, head() + 1)]

    back: list[int] = []
    more = True
    while more:
        found = history.page(Filters(), before=back[-1] if back else None, limit=3, newest_first=True)
        back += [each["position"] for each in found.events]
        more = found.more
    assert back == seen[::-1]


def test_a_stretch_of_time() -> None:
    start = now().replace(microsecond=0)
    for hour in range(6):
        with time_machine.travel(start + timedelta(hours=2 * hour), tick=False):
            world.run()
    catch_up()

    found = history.page(Filters(since=start + timedelta(hours=4), until=start + timedelta(hours=8))).events
    assert [each["position"] for each in found] == [3, 4]
    assert len(history.page(Filters(since=start)).events) == 6
    assert history.page(Filters(until=start)).events == []


def test_what_was_forced_and_whether_it_held(story) -> None:
    breaker = world.created("CircuitBreaker", id="grep")
    world.forced(breaker, "OPEN")
    world.forced(breaker, "CLOSED")
    catch_up()

    found = history.forced().events
    assert [(each["entity_id"], each["to_state"], each["held"]) for each in found] == [
        ("grep", "CLOSED", True),
        ("grep", "OPEN", False),
        (story["task"].pk, "cancelled", True),
    ]
    assert found[1]["left_by"]["to_state"] == "CLOSED"
    assert found[0]["guards_bypassed"]
    assert history.forced(limit=1).more
    assert [each["entity_id"] for each in history.forced(entity_type=["task"]).events] == [story["task"].pk]


INDEXED = [
    ({}, "statecore_position_pkey"),
    ({"entity_type": ["worker"]}, "position_by_machine"),
    ({"run": ["r-7"]}, "position_by_run"),
    ({"actor": ["ada"]}, "position_by_actor"),
    ({"kind": ["override"]}, "position_of_overrides"),
    ({"severity": ["error"]}, "position_of_errors"),
    ({"severity": ["warning"]}, "position_of_warnings"),
    ({"severity": ["critical"]}, "position_of_criticals"),
    ({"entity": ["w-7"]}, "event_chain_is_linear"),
]
ON_SQLITE = {
    "statecore_position_pkey": "sqlite_autoindex_statecore_position_1",
    "event_chain_is_linear": "entity_id=?",
}


@pytest.mark.parametrize(("filters", "index"), INDEXED)
@pytest.mark.parametrize("newest_first", [False, True])
def test_an_index_answers(filters: dict[str, Any], index: str, newest_first: bool, story) -> None:
    swept(Position, Event)
    statement, params = pages.query(Filters(**filters), 0, None, 100, newest_first=newest_first)
    plan = words_of_plan(statement, params, without=("bitmapscan", "sort"))
    assert (index if connection.vendor == "postgresql" else ON_SQLITE.get(index, index)) in plan, plan
