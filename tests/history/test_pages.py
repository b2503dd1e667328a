"""Pages of the journal: every filter, in both directions, served by an index."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection

from statecore.journal import Event, Position
from statecore.journal.position import head
from statecore.kernel.clock import now
from statecore.kernel.refusals import Invalid
from statecore.read_models import history
from statecore.read_models.history import Filters, pages
from tests.support import world
from tests.support.plans import explain_query, vacuum_tables
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def story() -> dict[str, Any]:
    """A run with a forced task, and an unrelated worker."""
    task = world.queued_task()
    world.forced(task, "cancelled")
    worker = world.idle_worker()
    catch_up()
    return {"task": task, "worker": worker}


def find(**filters: Any) -> list[tuple[str, str, str]]:
    found = history.read_page(Filters(**filters)).events
    assert [each["position"] for each in found] == sorted(each["position"] for each in found)
    return [(each["event"]["entity_type"], each["event"]["entity_id"], each["event"]["to_state"]) for each in found]


def test_all_events_are_returned_in_order(story) -> None:
    assert len(find()) == head()
    assert [each["position"] for each in history.read_page(Filters()).events] == [*range(1, head() + 1)]


def test_each_filter_returns_matching_events(story) -> None:
    task, worker = story["task"], story["worker"]
    forced = ("task", task.pk, "cancelled")

    assert {kind for kind, *_ in find(entity_type=["worker"])} == {"worker"}
    assert {kind for kind, *_ in find(entity_type=["worker", "task"])} == {"worker", "task"}
    assert [state for *_, state in find(entity=[worker.pk])] == ["initializing", "idle"]
    assert find(entity=[worker.pk], entity_type=["task"]) == []
    assert {pk for _, pk, _ in find(run=[task.run_id])} == {task.run_id, task.workstream_id, task.pk}
    assert find(actor=["ada"]) == find(kind=["override"]) == [forced]
    assert forced in find(severity=["warning"])
    assert find(severity=["warning"], entity_type=["worker"]) == []
    assert find(run=[""]) == []


def test_unknown_filter_values_are_refused(db) -> None:
    with pytest.raises(Invalid) as refused:
        history.read_page(Filters(severity=["loud"], entity_type=["cat"]))
    assert refused.value.facts["errors"].keys() == {"severity", "entity_type"}


def test_paging_returns_every_event_once_in_both_directions(story) -> None:
    seen: list[int] = []
    more = True
    while more:
        found = history.read_page(Filters(), after=seen[-1] if seen else 0, limit=3)
        seen += [each["position"] for each in found.events]
        more = found.more
    assert seen == [*range(1, head() + 1)]

    back: list[int] = []
    more = True
    while more:
        found = history.read_page(Filters(), before=back[-1] if back else None, limit=3, newest_first=True)
        back += [each["position"] for each in found.events]
        more = found.more
    assert back == seen[::-1]


def test_events_are_filtered_by_time() -> None:
    start = now().replace(microsecond=0)
    for hour in range(6):
        with time_machine.travel(start + timedelta(hours=2 * hour), tick=False):
            world.run()
    catch_up()

    found = history.read_page(Filters(since=start + timedelta(hours=4), until=start + timedelta(hours=8))).events
    assert [each["position"] for each in found] == [3, 4]
    assert len(history.read_page(Filters(since=start)).events) == 6
    assert history.read_page(Filters(until=start)).events == []


def test_overrides_are_listed_with_whether_they_are_still_in_effect(story) -> None:
    breaker = world.created("CircuitBreaker", id="grep")
    world.forced(breaker, "OPEN")
    world.forced(breaker, "CLOSED")
    catch_up()

    found = history.list_overrides().events
    assert [(each["entity_id"], each["to_state"], each["held"]) for each in found] == [
        ("grep", "CLOSED", True),
        ("grep", "OPEN", False),
        (story["task"].pk, "cancelled", True),
    ]
    assert found[1]["left_by"]["to_state"] == "CLOSED"
    assert found[0]["guards_bypassed"]
    assert history.list_overrides(limit=1).more
    assert [each["entity_id"] for each in history.list_overrides(entity_type=["task"]).events] == [story["task"].pk]


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
def test_each_filter_uses_an_index(filters: dict[str, Any], index: str, newest_first: bool, story) -> None:
    vacuum_tables(Position, Event)
    statement, params = pages.build_query(Filters(**filters), 0, None, 100, newest_first=newest_first)
    plan = explain_query(statement, params, without=("bitmapscan", "sort"))
    assert (index if connection.vendor == "postgresql" else ON_SQLITE.get(index, index)) in plan, plan


NAMES = [
    # The names of the specification (001), and one of each other kind.
    ("task_blocked", lambda: world.fire(world.task(gates=[failed_gate().pk]), "gate_failed")),
    ("circuit_breaker_opened", lambda: world.open_breaker("grep")),
    ("patch_quarantined", lambda: world.fire(world.patch(), "validation_failed", error="no")),
    ("patch_rolled_back", world.rolled_back_patch),
    ("workstream_failed_quarantine", lambda: fail_by_quarantine()),
    ("manual_state_override", lambda: world.forced(world.task(), "failed")),
    ("task_created", world.task),
    ("gate_failed", lambda: failed_gate()),
]


def failed_gate() -> Any:
    return world.fire(world.fire(world.gate(), "gate_started"), "gate_failed", exit_code=1)


def fail_by_quarantine() -> None:
    workstream = world.workstream()
    world.fire(world.patch(workstream=workstream), "validation_failed", error="no")
    world.fire(workstream, "patch_quarantined")


@pytest.mark.usefixtures("machines_in_isolation")
@pytest.mark.parametrize(("name", "act"), NAMES, ids=[name for name, _act in NAMES])
def test_events_have_the_names_of_the_specification_and_are_found_by_them(name: str, act: Any) -> None:
    act()
    catch_up()

    every = [each["event"] for each in history.read_page(Filters()).events]
    named = [each["event"] for each in history.read_page(Filters(event_name=[name])).events]
    assert named == [event for event in every if event["event_name"] == name] != []


def test_an_unknown_event_name_is_refused(db) -> None:
    with pytest.raises(Invalid):
        history.read_page(Filters(event_name=["task_vanished"]))
