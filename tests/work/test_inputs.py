"""A completed task hands a result to the tasks that depend on it, whose claims have it as an input."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statecore import transitions
from statecore.api.claims import ClaimFields, TaskResult, claim_once
from statecore.kernel.refusals import Invalid
from statecore.kernel.validation import JSON_LIMIT
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.operations import integrity
from statecore.read_models import inputs
from statecore.read_models.attempts import list_attempts
from statecore.scheduling import register, submit_plan, timers
from statecore.storage import triggers
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.support import world
from tests.support.world import AGENT

pytestmark = pytest.mark.django_db
RESULT = {"files": ["a.py", "b.py"], "passed": True, "seconds": 1.5, "nothing": None}


def submit(*tasks: dict[str, Any], **parts: Any) -> None:
    plan = {
        "id": "r",
        "phase": world.phase().pk,
        "start": True,
        "workstreams": [{"id": "w", "tasks": [*tasks], **parts}],
    }
    submit_plan(plan, actor=world.operator())
    register(Worker, actor=AGENT, id="w1", max_concurrent_tasks=10)


def claim() -> dict[str, dict[str, Any]]:
    timers.queue_retries()
    return {task["id"]: task for task in claim_once("w1", ClaimFields(), AGENT)["tasks"]}


def complete(task_id: str, **fields: Any) -> Task:
    task = Task.objects.get(pk=task_id)
    return world.fire(task, "execution_completed", actor=AGENT, attempt=task.attempt, exit_code=0, **fields)


def test_a_claim_has_the_results_of_the_dependencies() -> None:
    submit({"id": "a"}, {"id": "b"}, {"id": "c", "depends_on": ["a", "b"]})
    claimed = claim()
    assert (claimed["a"]["inputs"], claimed["b"]["inputs"]) == ({}, {})
    complete("a", result=RESULT)
    complete("b")

    assert claim()["c"]["inputs"] == {"a": RESULT, "b": None}


@pytest.mark.parametrize("result", [0, "", [], {}, False, "text", 2.5, [None], None])
def test_a_result_is_any_json(result: Any) -> None:
    submit({"id": "a"}, {"id": "b", "depends_on": ["a"]})
    claim()
    complete("a", result=result)
    (given,) = claim()["b"]["inputs"].values()
    assert (given, type(given)) == (result, type(result))


def test_a_report_in_a_claim_has_a_result_too() -> None:
    submit({"id": "a"}, {"id": "b", "depends_on": ["a"]})
    claim()
    done = TaskResult(task="a", attempt=1, trigger="execution_completed", exit_code=0, result=RESULT)
    claim_once("w1", ClaimFields(reports=[done]), AGENT)
    assert claim()["b"]["inputs"] == {"a": RESULT}


def test_a_result_beyond_the_limit_is_refused_and_changes_nothing() -> None:
    submit({"id": "a"})
    claim()
    with pytest.raises(Invalid, match="result: must be at most 262144 bytes"):
        complete("a", result="x" * JSON_LIMIT)
    assert Task.objects.get().state == "running"
    complete("a", result="x" * (JSON_LIMIT - 100))


def test_a_retried_dependency_keeps_its_name_and_gives_the_result_of_the_successor() -> None:
    submit({"id": "a", "max_retries": 0}, {"id": "b", "depends_on": ["a"]})
    claim()
    world.fire(Task.objects.get(pk="a"), "execution_failed", actor=AGENT, attempt=1, error="no")
    successor = transitions.retry(Task, "a", actor=world.operator()).entity
    assert successor is not None
    claim()
    complete(successor.pk, result="second")
    assert claim()["b"]["inputs"] == {"a": "second"}


def test_a_dependency_that_was_retried_after_it_had_completed_gives_its_newest_completed_result() -> None:
    submit({"id": "a"}, {"id": "b", "depends_on": ["a"], "required_capabilities": ["b"]})
    register(Worker, actor=AGENT, id="w2", capabilities=["b"])
    claim()
    complete("a", result="first")  # b is queued now, and keeps its link
    successor = transitions.retry(Task, "a", actor=world.operator()).entity
    assert successor is not None
    assert list(claim()) == [successor.pk]
    complete(successor.pk, result="second")
    (task,) = claim_once("w2", ClaimFields(), AGENT)["tasks"]
    assert task["inputs"] == {"a": "second"}


def test_tasks_without_dependencies_cost_no_query_and_the_others_one_together() -> None:
    submit({"id": "a"}, {"id": "b"}, {"id": "c", "depends_on": ["a"]}, {"id": "d", "depends_on": ["a", "b"]})
    with CaptureQueriesContext(connection) as asked:
        claim()
    assert not [query for query in asked if "linked" in query["sql"]]
    complete("a", result=1)
    complete("b", result=2)
    with CaptureQueriesContext(connection) as asked:
        claimed = claim()
    assert len([query for query in asked if "linked" in query["sql"]]) == 1
    assert {name: task["inputs"] for name, task in claimed.items()} == {"c": {"a": 1}, "d": {"a": 1, "b": 2}}


def test_the_largest_results_of_a_claim_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_BYTES", 1_000)
    submit({"id": "a"}, {"id": "b"}, {"id": "c", "depends_on": ["a", "b"]})
    claim()
    complete("a", result="x" * 990)
    complete("b", result="x" * 500)
    assert claim()["c"]["inputs"] == {"a": None, "b": "x" * 500}


def test_a_result_is_evidence() -> None:
    submit({"id": "a"})
    claim()
    complete("a", result=RESULT)
    assert integrity.check_all() == []
    with triggers.disabled(connection):
        Task.objects.filter(pk="a").update(result={"files": ["a.py"]})
    (finding,) = integrity.check_all()
    assert (finding.check, finding.entity_id) == ("evidence", "a")


def test_a_rejected_result_is_kept_with_its_attempt() -> None:
    gates = [{"id": "g", "gate_type": "UNIT", "command": "pytest"}]
    submit({"id": "a", "gates": ["g"], "max_repairs": 1}, gates=gates)
    claim()
    complete("a", result="wrong")
    world.fire(TestGate.objects.get(), "gate_started")
    world.fire(TestGate.objects.get(), "gate_failed", exit_code=1)
    claim()
    first, second = list_attempts(Task.objects.get())
    assert (first["result"], second["result"]) == ("wrong", None)
    assert Task.objects.get().result is None


def test_the_detail_has_the_result_and_lists_and_other_responses_do_not() -> None:
    submit({"id": "a"})
    claim()
    complete("a", result=RESULT)
    caller = Caller("read")
    assert expect_ok(caller.get("tasks/a/"))["result"] == RESULT
    with CaptureQueriesContext(connection) as asked:
        (row,) = expect_ok(caller.get("tasks/"))["results"]
    assert "result" not in row
    assert not [query for query in asked if '"result"' in query["sql"]]


def test_a_result_over_rest_and_its_refusal() -> None:
    caller = Caller("agent")
    submit({"id": "a"}, {"id": "b", "depends_on": ["a"]})
    expect_ok(caller.post("workers/", {"id": "w2"}), 201)
    expect_ok(caller.post("workers/w2/claim/"))
    report = {"trigger": "execution_completed", "attempt": 1, "exit_code": 0}
    problem = expect_refusal(
        caller.post("tasks/a/transitions/", {**report, "result": "x" * JSON_LIMIT}), 400, "invalid"
    )
    assert list(problem["errors"]) == ["result"]
    done = expect_ok(caller.post("tasks/a/transitions/", {**report, "result": RESULT}))
    assert "result" not in done["entity"]
    (task,) = expect_ok(caller.post("workers/w2/claim/"))["tasks"]
    assert task["inputs"] == {"a": RESULT}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc é", max_size=5), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@pytest.mark.usefixtures("machines_in_isolation")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(result=JSON)
def test_any_result_verifies_after_it_was_stored(result: Any) -> None:
    task = world.running_task()
    world.fire(task, "execution_completed", attempt=task.attempt, exit_code=0, result=result)
    assert integrity.check_entity("task", task.pk) == []
