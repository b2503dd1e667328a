"""A plan is stored completely or not at all, and errors are reported with their location."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from hypothesis import event as noted
from hypothesis import given, settings
from hypothesis import strategies as st

from statecore import scheduling, transitions
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import DuplicateId, IdempotencyMismatch, Invalid, PermissionDenied
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.records import Phase
from statecore.scheduling import plan_document
from statecore.transitions import RequestKey
from tests.properties.support import SETTINGS, rolled_back
from tests.support import world
from tests.support.waiting import has_lock_waiters, until
from tests.work.agents import (
    PHASE,
    Agent,
    gate,
    plan,
    run_gate,
    states,
    submit,
    task,
    workstream,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _phase(db: None) -> None:
    Phase.objects.create(id=PHASE)


def errors_of(wanted: Any) -> dict[str, list[str]]:
    """Submit an invalid plan, assert that nothing is stored, and return the errors by location."""
    before = Event.objects.count()
    with pytest.raises(Invalid) as refused:
        scheduling.submit_plan(wanted, actor=THE_SYSTEM)
    assert Event.objects.count() == before
    assert [model.objects.count() for model in (Run, Workstream, Task)] == [0, 0, 0]
    return refused.value.facts["errors"]


def places_of(wanted: Any) -> set[str]:
    return set(errors_of(wanted))


# Invalid shapes


@pytest.mark.parametrize("wanted", [None, [], "plan", 7, True], ids=repr)
def test_a_plan_is_an_object(wanted: Any) -> None:
    assert errors_of(wanted) == {"plan": ["must be an object."]}


def test_an_empty_plan_names_what_is_missing() -> None:
    assert errors_of({}) == {"workstreams": ["must be a list."]}
    assert errors_of(plan()) == {"workstreams": ["must hold at least one workstream."]}
    assert errors_of(plan({"id": "a", "tasks": []})) == {"workstreams[0].tasks": ["must hold at least one task."]}
    assert errors_of(plan({"id": "a"}))["workstreams[0].tasks"][0] == "must be a list."


def test_a_plan_without_a_phase_is_refused() -> None:
    assert places_of({"id": "r", "workstreams": [workstream("a", "a1")]}) == {"phase"}
    assert places_of(plan(workstream("a", "a1"), phase="PH-nowhere")) == {"phase"}


def test_an_unknown_phase_is_named() -> None:
    errors = errors_of(plan(workstream("a", "a1"), phase="PH-nowhere"))
    assert errors["phase"] == ["there is no phase 'PH-nowhere': create it first, or name another."]


def test_unknown_fields_are_named() -> None:
    assert errors_of(plan(workstream("a", "a1"), colour="red")) == {"colour": ["is not a member of a plan."]}
    assert places_of(plan(workstream("a", "a1", colour="red"))) == {"workstreams[0].colour"}
    assert places_of(plan(workstream("a", "a1", {"id": "a2", "colour": 1}))) == {"workstreams[0].tasks[1].colour"}
    assert places_of(plan(workstream("a", "a1", gates=[gate("g", colour=1)]))) == {"workstreams[0].gates[0].colour"}


@pytest.mark.parametrize("wrong", [None, 7, "x", {}, True], ids=repr)
def test_lists_are_lists(wrong: Any) -> None:
    assert places_of(plan() | {"workstreams": wrong}) == {"workstreams"}
    assert places_of(plan(workstream("a", "a1"), gates=wrong)) == {"gates"}
    assert "workstreams[0].tasks" in places_of(plan({"id": "a", "tasks": wrong}))
    assert places_of(plan(workstream("a", "a1", gates=wrong))) == {"workstreams[0].gates"}


@pytest.mark.parametrize("wrong", [None, 7, "x", [], True], ids=repr)
def test_members_of_lists_are_objects(wrong: Any) -> None:
    assert places_of(plan(workstream("a", "a1")) | {"workstreams": [wrong]}) == {"workstreams[0]"}
    assert "workstreams[0].tasks[1]" in places_of(plan({"id": "a", "tasks": [{"id": "a1"}, wrong]}))
    assert places_of(plan(workstream("a", "a1", gates=[wrong]))) == {"workstreams[0].gates[0]"}
    assert places_of(plan(workstream("a", "a1"), gates=[gate("g"), wrong])) == {"gates[1]"}


@pytest.mark.parametrize("wrong", [None, "", 7, 0, "a b", "x" * 65, "é", [], {}, ["a"], True, "a\n"], ids=repr)
def test_ids_are_ids(wrong: Any) -> None:
    assert places_of(plan(workstream(wrong, "a1"))) == {"workstreams[0].id"}
    assert places_of(plan(workstream("a", {"id": wrong}))) == {"workstreams[0].tasks[0].id"}
    assert places_of(plan(workstream("a", "a1"), gates=[gate(wrong)])) == {"gates[0].id"}
    if wrong is not None:
        assert places_of(plan(workstream("a", "a1"), id=wrong)) == {"id"}


def test_a_run_without_an_id_gets_one() -> None:
    assert submit(workstream("a", "a1"), id=None).pk.startswith("run_")


@pytest.mark.parametrize("wrong", [None, "yes", 1, 0, []], ids=repr)
def test_start_is_true_or_false(wrong: Any) -> None:
    assert errors_of(plan(workstream("a", "a1"), start=wrong)) == {"start": ["must be true or false."]}


@pytest.mark.parametrize("name", ["depends_on", "gates", "entry_gates"])
@pytest.mark.parametrize("wrong", [None, "a1", 7, {}, [None], [7], [["a1"]], [{}]], ids=repr)
def test_links_are_lists_of_ids(name: str, wrong: Any) -> None:
    wanted = plan(workstream("a", "a1", {"id": "a2", name: wrong}))
    assert errors_of(wanted) == {f"workstreams[0].tasks[1].{name}": ["must be a list of ids."]}


FIELDS = [
    ("workstream", "is_critical", "yes"), ("workstream", "is_critical", None), ("workstream", "metadata", []),
    ("workstream", "state", "ready"), ("workstream", "retry_of", "b"), ("workstream", "run", "other"),
    ("task", "is_critical", 1), ("task", "priority", "high"), ("task", "priority", 10**6), ("task", "priority", 1.5),
    ("task", "required_capabilities", "git"), ("task", "required_capabilities", [7]),
    ("task", "required_capabilities", [["git"]]), ("task", "required_capabilities", ["git", "git"]),
    ("task", "expected_exit_codes", []), ("task", "expected_exit_codes", [True]), ("task", "timeout_sec", 0),
    ("task", "timeout_sec", -1), ("task", "timeout_sec", 10**20), ("task", "max_retries", 101),
    ("task", "max_retries", True), ("task", "payload", {"text": "a\0b"}), ("task", "payload", {"text": "\ud800"}),
    ("task", "metadata", 7), ("task", "state", "queued"), ("task", "worker", "w"), ("task", "attempt", 3),
    ("task", "patch", "no-such-patch"), ("task", "patch", 7), ("task", "workstream", "other"),
    ("gate", "gate_type", "SMOKE"), ("gate", "gate_type", 7), ("gate", "command", ""), ("gate", "command", "a\0b"),
    ("gate", "command", None), ("gate", "phase", "PH-nowhere"), ("gate", "workstream", "other"),
    ("gate", "workstream", []), ("gate", "workstream", None), ("gate", "expected_exit_code", 10**9),
    ("gate", "timeout_sec", "soon"), ("gate", "state", "PASSED"), ("gate", "exit_code", 0),
]  # fmt: skip


@pytest.mark.parametrize(("noun", "name", "value"), FIELDS, ids=lambda value: repr(value)[:30])
def test_a_wrong_field_is_named_with_its_place(noun: str, name: str, value: Any) -> None:
    given: dict[str, dict[str, Any]] = {"workstream": {}, "task": {}, "gate": {}}
    given[noun] = {name: value}
    wanted = plan(
        workstream("a", "a1", {"id": "a2", **given["task"]}, **given["workstream"]),
        gates=[gate("g") | given["gate"]],
    )
    places = {"workstream": "workstreams[0]", "task": "workstreams[0].tasks[1]", "gate": "gates[0]"}
    assert places_of(wanted) == {f"{places[noun]}.{name}"}


def test_a_gate_needs_its_own_fields() -> None:
    assert places_of(plan(workstream("a", "a1"), gates=[{"id": "g"}])) == {"gates[0].gate_type", "gates[0].command"}


def test_all_shape_errors_are_reported_together() -> None:
    wanted = plan(
        workstream("a", task("a1", "nobody"), {"id": "?"}, depends_on=["nowhere"]),
        workstream("a", "b1"),
        gates=[gate("g", depends_on=["h"])],
        extra=1,
    )
    assert errors_of(wanted) == {
        "extra": ["is not a member of a plan."],
        "workstreams[0].tasks[1].id": ["must be 1 to 64 of A-Z a-z 0-9 . _ : -"],
        "workstreams[1].id": ["workstream a is already defined at workstreams[0]."],
        "workstreams[0].depends_on": ["there is no workstream nowhere in this plan."],
        "workstreams[0].tasks[0].depends_on": ["there is no task nobody in this plan."],
        "gates[0].depends_on": ["there is no gate h in this plan."],
    }


def test_the_total_size_of_a_plan_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_document, "MAX_ENTITIES", 5)
    assert errors_of(plan(workstream("a", "a1", "a2"), workstream("b", "b1", "b2"))) == {
        "plan": ["must hold at most 5 entities in all."]
    }
    monkeypatch.setattr(plan_document, "MAX_ENTITIES", 6)
    scheduling.submit_plan(plan(workstream("a", "a1", "a2"), workstream("b", "b1", "b2")), actor=THE_SYSTEM)


def test_a_plan_may_name_more_gates_than_a_statement_has_parameters() -> None:
    """PostgreSQL allows 65,535 parameters."""
    wanted = plan(workstream("a", task("a1", gates=[f"g{number}" for number in range(70_000)])))
    assert places_of(wanted) == {"workstreams[0].tasks[0].gates"}


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_gate_retried_during_the_submission_is_replaced_by_its_successor() -> None:
    old = world.forced(world.gate(), "FAILED")
    wanted = plan(workstream("a", task("a1", gates=[old.pk])))

    def submit_and_close() -> None:
        try:
            scheduling.submit_plan(wanted, actor=THE_SYSTEM)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            successor = transitions.retry(TestGate, old.pk, actor=THE_SYSTEM).entity
            submitting = pool.submit(submit_and_close)
            until(lambda: submitting.done() or has_lock_waiters())
        submitting.result(30)

    assert [gate.pk for gate in Task.objects.get(pk="a1").gates.all()] == [successor.pk]


# Unknown, duplicate and existing ids


def test_unknown_ids_are_reported_where_they_are_used() -> None:
    wanted = plan(workstream("a", task("a1", "x", "y", gates=["g"], entry_gates=["h"]), depends_on=["b"]))
    assert errors_of(wanted) == {
        "workstreams[0].depends_on": ["there is no workstream b in this plan."],
        "workstreams[0].tasks[0].depends_on": ["there is no task x, y in this plan."],
        "workstreams[0].tasks[0].gates": ["there is no gate g in this plan."],
        "workstreams[0].tasks[0].entry_gates": ["there is no gate h in this plan."],
    }


def test_links_to_another_kind_are_refused() -> None:
    assert places_of(plan(workstream("a", "a1"), workstream("b", "b1", depends_on=["a1"]))) == {
        "workstreams[1].depends_on"
    }
    assert places_of(plan(workstream("a", task("a1", gates=["a"])))) == {"workstreams[0].tasks[0].gates"}


def test_duplicate_ids_are_reported_with_both_locations() -> None:
    wanted = plan(
        workstream("a", "t", gates=[gate("g")]), workstream("b", "t"), workstream("a", "u"), gates=[gate("g")]
    )
    assert errors_of(wanted) == {
        "workstreams[1].tasks[0].id": ["task t is already defined at workstreams[0].tasks[0]."],
        "workstreams[2].id": ["workstream a is already defined at workstreams[0]."],
        "gates[0].id": ["gate g is already defined at workstreams[0].gates[0]."],
    }


def test_the_same_id_may_name_things_of_different_kinds() -> None:
    submit(workstream("r", {"id": "r", "gates": ["r"]}, gates=[gate("r")]))
    assert states(Run) == {"r": "running"}
    assert Agent().work() == ["r"]


def test_a_duplicate_link_is_stored_once() -> None:
    submit(workstream("a", "a1", task("a2", "a1", "a1")))
    assert Agent().work() == ["a1", "a2"]


@pytest.mark.parametrize(
    ("taken", "wanted"),
    [
        ("r", plan(workstream("b", "b1"))),
        ("a", plan(workstream("a", "b1"), id="s")),
        ("a1", plan(workstream("b", "b1", "a1"), id="s")),
        ("g", plan(workstream("b", "b1"), id="s", gates=[gate("g")])),
    ],
    ids=["run", "workstream", "task", "gate"],
)
def test_an_existing_id_is_refused_and_nothing_is_stored(taken: str, wanted: dict[str, Any]) -> None:
    submit(workstream("a", "a1", gates=[gate("g")]))
    before = [*map(states, (Run, Workstream, Task, TestGate)), Event.objects.count()]
    with pytest.raises(DuplicateId) as refused:
        scheduling.submit_plan(wanted, actor=THE_SYSTEM)
    assert (refused.value.status, refused.value.facts) == (409, {"id": taken})
    assert [*map(states, (Run, Workstream, Task, TestGate)), Event.objects.count()] == before


# Cycles


@pytest.mark.parametrize(
    ("workstreams", "path"),
    [
        ([workstream("w", task("a", "a"))], "a → a"),
        ([workstream("w", task("a", "b"), task("b", "a"))], "a → b → a"),
        ([workstream("w", "z", task("a", "b"), task("b", "c"), task("c", "b"))], "b → c → b"),
        ([workstream("v", task("a", "b")), workstream("w", task("b", "a"))], "a → b → a"),
        ([workstream("v", "a", depends_on=["v"])], "v → v"),
        ([workstream("v", "a", depends_on=["w"]), workstream("w", "b", depends_on=["v"])], "v → w → v"),
        ([workstream("v", task("a", "b")), workstream("w", "b", depends_on=["v"])], "v → a → b → w → v"),
    ],
    ids=["itself", "two tasks", "beside the start", "across", "a workstream", "two workstreams", "both kinds"],
)
def test_a_cycle_is_reported_with_its_path(workstreams: list[dict[str, Any]], path: str) -> None:
    assert errors_of(plan(*workstreams)) == {"plan": [f"cycle: {path}"]}


def test_a_cycle_of_gates_is_reported_with_its_path() -> None:
    gates = [gate("g", depends_on=["h"]), gate("h", depends_on=["g"])]
    assert errors_of(plan(workstream("a", "a1"), gates=gates)) == {"plan": ["cycle: g → h → g"]}
    assert errors_of(plan(workstream("a", "a1"), gates=[gate("g", depends_on=["g"])])) == {"plan": ["cycle: g → g"]}


def test_tasks_may_depend_on_tasks_of_other_workstreams() -> None:
    submit(workstream("a", task("a1", "b1")), workstream("b", "b1"))
    assert Agent().work() == ["b1", "a1"]
    assert states(Run) == {"r": "succeeded"}


LONG = 10_000


def clear_table_statistics() -> None:
    """Clear planner statistics that say the tables are empty, as they never are in an installation."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_clear_relation_stats('public', relname) FROM pg_class "
                "WHERE relkind = 'r' AND relname LIKE 'statecore%'"
            )


def test_a_chain_of_ten_thousand_tasks_starts_at_its_first() -> None:
    clear_table_statistics()
    chain = [task("t0"), *(task(f"t{number}", f"t{number - 1}") for number in range(1, LONG))]
    submit(workstream("a", *chain))
    assert Task.objects.filter(state="blocked").count() == LONG - 1
    agent = Agent()
    for number in range(3):
        (held,) = agent.claim()
        assert held.pk == f"t{number}"
        agent.finish(held)


@pytest.mark.parametrize(
    ("workstreams", "path"),
    [
        (
            [
                workstream(
                    "w",
                    task("a", gates=["g"]),
                    task("b", "a", gates=["h"]),
                    gates=[gate("g", depends_on=["h"]), gate("h")],
                )
            ],
            "a → g → h → b → a",
        ),
        ([workstream("w", task("a", entry_gates=["g"], gates=["h"]), gates=[gate("g", depends_on=["h"]), gate("h")])],
         "a → g → h → a"),
        (
            [
                workstream("v", "a", gates=[gate("g", depends_on=["h"])]),
                workstream("w", task("b", gates=["h"]), gates=[gate("h")], depends_on=["v"]),
            ],
            "v → g → h → b → w → v",
        ),
    ],
    ids=["two tasks", "in and out", "a workstream's own"],
)  # fmt: skip
def test_a_cycle_through_gates_is_reported_with_its_path(workstreams: list[dict[str, Any]], path: str) -> None:
    """An exit gate runs after its task has finished."""
    assert errors_of(plan(*workstreams)) == {"plan": [f"cycle: {path}"]}


def test_a_shared_gate_needs_only_one_of_its_tasks() -> None:
    """So it is no cycle if the second task waits for the first."""
    submit(workstream("w", task("a", gates=["g"]), task("b", "a", gates=["g"]), gates=[gate("g")]))
    agent = Agent()
    agent.finish(*agent.claim())
    run_gate("g")
    assert agent.work() == ["b"]
    assert states(Workstream) == {"w": "completed"}


def test_a_cycle_of_ten_thousand_tasks_is_found() -> None:
    ring = [task(f"t{number}", f"t{(number + 1) % LONG}") for number in range(LONG)]
    (message,) = errors_of(plan(workstream("a", *ring)))["plan"]
    assert message.startswith("cycle: t0 → t1 → t2")
    assert message.endswith(" → t0")


def test_forty_thousand_unknown_gates_are_refused_without_an_error() -> None:
    """More ids than a statement of either database allows parameters."""
    unknown = [f"g{number}" for number in range(40_000)]
    assert places_of(plan(workstream("a", task("a1", gates=unknown)))) == {"workstreams[0].tasks[0].gates"}


# Existing gates


def test_an_existing_gate_is_used_in_its_current_state() -> None:
    world.gate(id="g", phase=Phase.objects.get())
    submit(workstream("a", task("a1", entry_gates=["g"])))
    assert states(Task) == {"a1": "blocked"}
    run_gate("g")
    assert states(Task) == {"a1": "queued"}


def test_a_retried_gate_is_replaced_by_its_successor() -> None:
    world.gate(id="g", phase=Phase.objects.get())
    run_gate("g", exit_code=1)
    again = transitions.retry(TestGate, "g", actor=world.operator()).entity.pk
    run_gate(again)
    submit(workstream("a", task("a1", entry_gates=["g"]), task("a2", gates=["g"])), gates=[gate("h", depends_on=["g"])])
    assert states(Task) == {"a1": "queued", "a2": "queued"}
    run_gate("h")
    assert Agent().work() == ["a1", "a2"]
    assert states(Run) == {"r": "succeeded"}


def test_a_gate_with_a_failed_dependency_is_blocked_until_that_is_retried() -> None:
    world.gate(id="g", phase=Phase.objects.get())
    run_gate("g", exit_code=1)
    submit(workstream("a", "a1"), gates=[gate("h", depends_on=["g"])])
    assert states(TestGate)["h"] == "BLOCKED"
    run_gate(transitions.retry(TestGate, "g", actor=world.operator()).entity.pk)
    assert states(TestGate)["h"] == "PENDING"


# Permissions and repeated requests


def test_a_repeated_request_returns_the_same_plan() -> None:
    request = RequestKey("key-1", "plans", "hash")
    first = scheduling.submit_plan(plan(workstream("a", "a1", "a2")), actor=THE_SYSTEM, request=request)
    again = scheduling.submit_plan(plan(workstream("a", "a1", "a2")), actor=THE_SYSTEM, request=request)
    assert again.replayed
    assert again.as_dict() == first.as_dict()
    assert {name: first.as_dict()[name] for name in ("workstreams", "tasks", "gates")} == {
        "workstreams": 1,
        "tasks": 2,
        "gates": 0,
    }
    assert Run.objects.count() == 1
    with pytest.raises(IdempotencyMismatch):
        scheduling.submit_plan(
            plan(workstream("b", "b1"), id="s"), actor=THE_SYSTEM, request=RequestKey("key-1", "plans", "other")
        )


def test_a_refused_request_may_be_sent_again() -> None:
    request = RequestKey("key-1", "plans", "hash")
    with pytest.raises(Invalid):
        scheduling.submit_plan(plan(workstream("a", task("a1", priority="high"))), actor=THE_SYSTEM, request=request)
    assert not scheduling.submit_plan(plan(workstream("a", "a1")), actor=THE_SYSTEM, request=request).replayed


def test_an_operator_needs_the_permission_for_every_machine_of_a_plan() -> None:
    with pytest.raises(PermissionDenied):
        scheduling.submit_plan(plan(workstream("a", "a1")), actor=world.operator_with("operate_run", "operate_task"))
    everything = [f"operate_{name}" for name in ("run", "workstream", "task", "testgate")]
    scheduling.submit_plan(plan(workstream("a", "a1")), actor=world.operator_with(*everything, name="eve"))
    assert states(Run) == {"r": "running"}


@pytest.mark.django_db(transaction=True)
def test_a_plan_is_retried_with_the_same_id_after_a_deadlock() -> None:
    """The retry stores the same plan."""
    tries = []

    def fail_once(execute: Any, sql: str, *more: Any) -> Any:
        if "INTO" in sql and "statecore_workstream" in sql and not tries:
            tries.append(sql)
            raise OperationalError("database is locked")
        return execute(sql, *more)

    with connection.execute_wrapper(fail_once):
        scheduling.submit_plan(plan(workstream("a", "a1")), actor=THE_SYSTEM)
    assert tries
    assert states(Run) == {"r": "running"}
    assert states(Task) == {"a1": "queued"}


# Random input

WORDS = st.sampled_from(
    ["id", "phase", "workstreams", "tasks", "gates", "entry_gates", "depends_on", "start", "metadata", "state",
     "workstream", "run", "patch", "priority", "command", "gate_type", "timeout_sec", "payload", "a", "b", "UNIT",
     PHASE]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=5)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=4)
)
IDS = st.sampled_from("abcdefghij")
LINKS = st.just([]) | st.just([]) | st.lists(IDS, max_size=2)


def almost(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of nearly the right shape: some fields missing, some with arbitrary values."""
    right = st.fixed_dictionaries({"id": IDS, **fields})
    partial = st.fixed_dictionaries({}, optional={"id": IDS, **fields})
    wrong = st.builds(lambda fits, breaks: {**fits, **breaks}, partial, st.dictionaries(WORDS, JSON, max_size=1))
    return st.integers(0, 9).flatmap(lambda luck: right if luck < 9 else wrong)


TASKS = almost(depends_on=LINKS, gates=LINKS, entry_gates=LINKS, is_critical=st.booleans(), priority=st.integers(0, 9))
GATES = almost(gate_type=st.just("UNIT"), command=st.just("true"), depends_on=LINKS)
WORKSTREAMS = almost(tasks=st.lists(TASKS, min_size=1, max_size=3), gates=st.lists(GATES, max_size=2), depends_on=LINKS)
PLANS = almost(
    phase=st.just(PHASE),
    workstreams=st.lists(WORKSTREAMS, min_size=1, max_size=2),
    gates=st.lists(GATES, max_size=1),
    start=st.booleans(),
)


@settings(SETTINGS, max_examples=40)
@given(wanted=JSON | PLANS | PLANS | PLANS)
def test_any_input_is_stored_or_refused(wanted: Any) -> None:
    with rolled_back():
        before = Event.objects.count()
        try:
            outcome = scheduling.submit_plan(wanted, actor=THE_SYSTEM)
        except (Invalid, DuplicateId) as refusal:
            assert Event.objects.count() == before
            noted(refusal.code)
        else:
            assert Run.objects.get().pk == outcome.entity.pk
            assert integrity.check_all() == []
            noted("kept")


def test_tasks_and_gates_may_name_a_tool() -> None:
    submit(workstream("a", task("a1", tool="aider"), task("a2", gates=["g"]), gates=[gate("g", tool="pytest")]))
    assert dict(Task.objects.values_list("pk", "tool")) == {"a1": "aider", "a2": ""}
    assert TestGate.objects.get(pk="g").tool == "pytest"


@pytest.mark.parametrize("tool", ["not an id", "x" * 65, "..", 7, None])
def test_an_invalid_tool_is_refused(tool: Any) -> None:
    wanted = plan(workstream("a", task("a1", tool=tool), gates=[gate("g", tool=tool)]))
    assert places_of(wanted) <= {"workstreams[0].tasks[0].tool", "workstreams[0].gates[0].tool"}
