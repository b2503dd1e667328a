"""A submitted plan runs to its end automatically."""

import pytest

from statecore import scheduling, transitions
from statecore.journal import Event
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.ids import new_id
from statecore.kernel.refusals import GuardFailed
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.read_models import stuck
from statecore.records import Patch
from tests.races.contest import operator
from tests.support import world
from tests.work.agents import (
    Agent,
    gate,
    run_gate,
    states,
    submit,
    task,
    workstream,
)

pytestmark = pytest.mark.django_db


def assert_consistent() -> None:
    assert [str(finding) for finding in integrity.check_all()] == []


def test_a_plan_runs_to_success() -> None:
    submit(
        workstream("a", "a1", task("a2", "a1"), task("a3", "a1")),
        workstream("b", "b1", depends_on=["a"]),
    )
    assert states(Workstream) == {"a": "ready", "b": "blocked"}
    assert world.last_event(Workstream.objects.get(pk="b"))["metadata"]["blocked_by"] == ["a"]
    assert states(Task) == {"a1": "queued", "a2": "blocked", "a3": "blocked", "b1": "pending"}
    assert Agent().work() == ["a1", "a2", "a3", "b1"]
    assert set(states(Task).values()) == {"completed"}
    assert states(Workstream) == {"a": "completed", "b": "completed"}
    assert states(Run) == {"r": "succeeded"}
    assert_consistent()


def test_every_event_of_a_cascade_names_its_cause() -> None:
    submit(workstream("a", "a1"))
    agent = Agent()
    (held,) = agent.claim()
    outcome = agent.finish(held)
    entries = {entry.event_id: (entry.entity_type, entry.to_state) for entry in outcome.caused}
    causes = {entries[entry.event_id]: entry.caused_by for entry in outcome.caused}
    assert list(entries.values()) == [
        ("worker", "idle"),
        ("task", "completed"),
        ("workstream", "validating"),
        ("workstream", "completed"),
        ("run", "succeeded"),
    ]
    assert causes["task", "completed"] == outcome.entry.event_id
    chain = [entries[cause] for what, cause in causes.items() if what[0] in ("workstream", "run")]
    assert chain == [("task", "completed"), ("workstream", "validating"), ("workstream", "completed")]


def test_a_critical_failure_fails_the_workstream_and_the_run() -> None:
    submit(
        workstream("a", {"id": "a1", "is_critical": True, "max_retries": 0}, "a2", is_critical=True),
        workstream("b", "b1", "b2"),
    )
    agent = Agent()
    (held,) = agent.claim()
    assert held.pk == "a1"
    agent.fail(held)
    assert states(Run) == {"r": "failed"}
    assert states(Workstream) == {"a": "failed", "b": "cancelled"}
    assert states(Task) == {"a1": "failed", "a2": "cancelled", "b1": "cancelled", "b2": "cancelled"}
    assert agent.row.state == "idle"
    assert_consistent()


def test_a_non_critical_failure_waits_for_a_decision() -> None:
    submit(workstream("a", {"id": "a1", "max_retries": 0}, task("a2", "a1"), "a3"))
    agent = Agent()
    (held,) = agent.claim()
    agent.fail(held)
    assert agent.work() == ["a3"]
    assert states(Task) == {"a1": "failed", "a2": "blocked", "a3": "completed"}
    assert states(Workstream) == {"a": "executing"}
    successor = transitions.retry(Task, "a1", actor=world.operator()).entity
    assert agent.work() == [successor.pk, "a2"]
    assert states(Run) == {"r": "succeeded"}
    assert_consistent()


def test_a_run_ends_at_its_start_if_its_workstreams_have_decided_the_outcome() -> None:
    submit(workstream("a", task("a1", is_critical=True), is_critical=True), workstream("b", "b1"), start=False)
    world.forced(Task.objects.get(pk="a1"), "failed")
    assert (states(Run), states(Workstream)) == ({"r": "pending"}, {"a": "failed", "b": "planned"})
    world.fire(Run.objects.get(pk="r"), "run_started", actor=THE_SYSTEM)
    assert (states(Run), states(Workstream)) == ({"r": "failed"}, {"a": "failed", "b": "cancelled"})
    submit(workstream("c", "c1"), id="s", start=False)
    world.fire(Workstream.objects.get(pk="c"), "workstream_skipped", actor=world.operator())
    world.fire(Run.objects.get(pk="s"), "run_started", actor=THE_SYSTEM)
    assert states(Run) == {"r": "failed", "s": "succeeded"}
    assert_consistent()


def test_canceling_a_run_cancels_everything_and_notifies_the_agent() -> None:
    submit(workstream("a", "a1", "a2"), workstream("b", "b1", depends_on=["a"]))
    agent = Agent()
    (held,) = agent.claim()
    transitions.transition(Run, "r", "run_canceled", actor=world.operator())
    assert set(states(Task).values()) == {"cancelled"}
    assert set(states(Workstream).values()) == {"cancelled"}
    assert scheduling.record_heartbeat("w", actor=agent.actor) == {
        "state": "idle",
        "commands": [{"cancel": held.pk, "attempt": held.attempt}],
    }
    assert_consistent()


def test_a_task_completes_once_its_exit_gate_passes() -> None:
    submit(workstream("a", {"id": "a1", "gates": ["g"]}, gates=[gate("g")]))
    Agent().work()
    assert states(Task) == {"a1": "validating"}
    run_gate("g")
    assert states(Task) == {"a1": "completed"}
    assert states(Run) == {"r": "succeeded"}


def test_a_failed_gate_blocks_its_task_until_a_retry_passes() -> None:
    submit(workstream("a", {"id": "a1", "gates": ["g"]}, gates=[gate("g"), gate("h", depends_on=["g"])]))
    agent = Agent()
    agent.work()
    run_gate("g", exit_code=1)
    assert states(Task) == {"a1": "blocked"}
    assert Task.objects.get().blocked_by == ["g"]
    assert world.last_event(Task.objects.get())["metadata"]["blocked_by"] == ["g"]
    assert states(TestGate) == {"g": "FAILED", "h": "BLOCKED"}
    assert world.last_event(TestGate.objects.get(pk="h"))["metadata"]["blocked_by"] == ["g"]
    again = transitions.retry(TestGate, "g", actor=world.operator()).entity
    assert states(Task) == {"a1": "blocked"}
    run_gate(again.pk)
    assert states(TestGate) == {"g": "FAILED", again.pk: "PASSED", "h": "PENDING"}
    run_gate("h")
    assert agent.work() == ["a1"]
    assert states(Run) == {"r": "succeeded"}
    assert_consistent()


def test_an_entry_gate_keeps_a_task_from_being_queued() -> None:
    submit(workstream("a", {"id": "a1", "entry_gates": ["g"]}, gates=[gate("g")]))
    agent = Agent()
    assert agent.work() == []
    assert states(Task) == {"a1": "blocked"}
    run_gate("g")
    assert agent.work() == ["a1"]


def test_a_quarantined_patch_fails_its_workstream_in_every_live_state() -> None:
    submit(workstream("a", "a1", "a2"), workstream("b", "b1"), workstream("c", "c1", depends_on=["b"]))
    agent = Agent()
    agent.claim()
    for name in "abc":
        patch = world.patch(workstream=Workstream.objects.get(pk=name))
        world.fire(patch, "validation_failed", error="it touches what it may not")
    assert states(Workstream) == {"a": "failed", "b": "failed", "c": "failed"}
    assert states(Run) == {"r": "running"}, "none of them is critical"
    assert set(states(Task).values()) == {"cancelled"}
    assert agent.row.state == "idle"
    assert_consistent()


def test_a_patch_quarantined_before_the_first_task_fails_a_critical_workstream_and_the_run() -> None:
    submit(workstream("a", "a1", is_critical=True), workstream("b", "b1"))
    assert states(Workstream) == {"a": "ready", "b": "ready"}
    patch = world.patch(workstream=Workstream.objects.get(pk="a"))
    world.fire(patch, "validation_failed", error="out of scope")
    assert (states(Workstream), states(Run)) == ({"a": "failed", "b": "cancelled"}, {"r": "failed"})
    event = world.last_event(Workstream.objects.get(pk="a"))
    assert (event["trigger"], event["metadata"]["quarantined_patches"]) == ("patch_quarantined", [patch.pk])
    assert_consistent()


def test_a_failed_final_gate_fails_its_workstream() -> None:
    submit(workstream("a", "a1", gates=[gate("g"), gate("h", depends_on=["g"])], is_critical=True))
    Agent().work()
    run_gate("g", exit_code=1)
    assert states(TestGate) == {"g": "FAILED", "h": "BLOCKED"}
    assert (states(Workstream), states(Run)) == ({"a": "failed"}, {"r": "failed"})
    failed = Workstream.objects.get()
    event = world.last_event(failed)
    assert (event["trigger"], event["severity"], failed.last_error) == ("validation_failed", "error", "gate g failed")
    assert_consistent()


def test_a_final_gate_that_fails_early_fails_its_workstream_once_it_validates() -> None:
    submit(workstream("a", "a1", gates=[gate("g")]))
    run_gate("g", exit_code=1)
    assert states(Workstream) == {"a": "ready"}
    Agent().work()
    assert (states(Workstream), states(Run)) == ({"a": "failed"}, {"r": "running"})


def test_a_failed_gate_is_run_again_while_reruns_remain() -> None:
    submit(workstream("a", "a1", gates=[gate("g", max_reruns=2)]))
    Agent().work()
    for number in (1, 2):
        run_gate(TestGate.objects.get(state="PENDING").pk, exit_code=1)
        again = TestGate.objects.get(state="PENDING")
        assert (again.reruns, again.max_reruns, states(Workstream)) == (number, 2, {"a": "validating"})
    assert world.events_of(again)[0]["reason"] == "automatic re-run 2 of 2"
    run_gate(again.pk, exit_code=1)
    assert (TestGate.objects.count(), states(Workstream)) == (3, {"a": "failed"})
    assert_consistent()


def test_a_rerun_that_passes_completes_task_and_workstream() -> None:
    gates = [gate("own", max_reruns=1), gate("last", max_reruns=1)]
    submit(workstream("a", {"id": "a1", "gates": ["own"]}, gates=gates))
    agent = Agent()
    agent.work()
    for name in ("own", "last"):
        run_gate(name, exit_code=1)
        run_gate(TestGate.objects.get(retry_of=name).pk)
        agent.work()
    assert (states(Task), states(Run)) == ({"a1": "completed"}, {"r": "succeeded"})
    assert_consistent()


def test_a_retry_by_an_operator_has_all_its_reruns() -> None:
    submit(workstream("a", {"id": "a1", "gates": ["g"]}, gates=[gate("g", max_reruns=1)]))
    Agent().work()
    run_gate("g", exit_code=1)
    run_gate(TestGate.objects.get(state="PENDING").pk, exit_code=1)
    assert not TestGate.objects.filter(state="PENDING").exists()
    last = TestGate.objects.get(successor=None)
    assert transitions.retry(TestGate, last.pk, actor=world.operator()).entity.reruns == 0


def test_the_events_of_a_plan_verify() -> None:
    submit(workstream("a", *(f"t{number}" for number in range(30))), start=False)
    assert states(Run) == {"r": "pending"}
    assert set(states(Task).values()) == {"pending"}
    assert Event.objects.filter(kind="created").count() == 32
    transitions.transition(Run, "r", "run_started", actor=THE_SYSTEM)
    assert set(states(Task).values()) == {"queued"}
    assert_consistent()


def test_a_task_claimed_while_its_run_is_cancelled_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelling a run skips a task that a claim has locked; the claim re-checks and cancels the task."""
    submit(workstream("a", "a1"))
    agent = Agent()
    with monkeypatch.context() as patched:
        patched.setattr(registry, "reactions", [])
        transitions.transition(Run, "r", "run_canceled", actor=world.operator())
    assert agent.claim() == []
    assert states(Task) == {"a1": "cancelled"}
    assert (agent.row.state, agent.row.current_load) == ("idle", 0)


def test_a_retried_workstream_gets_the_gates_that_never_ran() -> None:
    submit(
        workstream(
            "a", task("a1", is_critical=True, max_retries=0), task("a2", "a1", gates=["late"]),
            gates=[gate("late"), gate("own", depends_on=["late"])],
        )
    )  # fmt: skip
    agent = Agent()
    agent.fail(*agent.claim())
    assert states(TestGate) == {"late": "PENDING", "own": "PENDING"}
    successor = transitions.retry(Workstream, "a", actor=THE_SYSTEM).entity

    assert {each.retry_of_id for each in successor.gates.all()} == {"late", "own"}
    for done in ("late", "own"):
        agent.work()
        run_gate(TestGate.objects.get(retry_of=done).pk)
    assert states(Run) == {"r": "succeeded"}


def test_a_workstream_that_failed_in_validation_is_retried_in_validation() -> None:
    submit(workstream("a", "x", gates=[gate("g")]))
    Agent().work()
    run_gate("g", 1)
    successor = "a"
    for exit_code in (1, 0):  # the second successor has no tasks either
        assert states(Workstream)[successor] == "failed"
        successor = transitions.retry(Workstream, successor, actor=THE_SYSTEM).entity.pk
        assert states(Workstream)[successor] == "validating"
        run_gate(TestGate.objects.get(workstream=successor).pk, exit_code)
    assert states(Workstream)[successor] == "completed"
    assert states(Run) == {"r": "succeeded"}
    assert_consistent()


def test_a_successor_does_not_complete_without_the_quarantined_patch() -> None:
    submit(workstream("a", "x", gates=[gate("g")]))
    Agent().work()
    patch = world.patch(workstream=Workstream.objects.get(pk="a"))
    world.fire(patch, "validation_failed", error="it touches what it may not")
    assert states(Workstream) == {"a": "failed"}
    successor = "a"
    for _ in range(3):  # across several generations of successors
        successor = transitions.retry(Workstream, successor, actor=THE_SYSTEM).entity.pk
        assert states(Workstream)[successor] == "ready"
        transitions.transition(Workstream, successor, "workstream_cancelled", actor=operator())
    successor = transitions.retry(Workstream, successor, actor=THE_SYSTEM).entity.pk
    sentence = stuck.explain(Workstream, successor).sentence
    assert sentence.startswith(f"workstream {successor} waits for patch {patch.pk}, which was quarantined")

    world.fire(patch, "discarded", actor=operator())

    assert states(Workstream)[successor] == "validating", "dropped patches don't count"
    assert_consistent()


def test_a_successor_with_tasks_does_not_complete_without_the_quarantined_patch() -> None:
    submit(workstream("a", "x", task("y", "x", max_retries=0, is_critical=True)))
    agent = Agent()
    agent.finish(*agent.claim())
    patch = world.patch(workstream=Workstream.objects.get(pk="a"))
    (held,) = agent.claim()
    world.fire(patch, "validation_failed", error="it touches what it may not")
    assert (states(Workstream), held.pk) == ({"a": "failed"}, "y")
    successor = transitions.retry(Workstream, "a", actor=THE_SYSTEM).entity.pk
    agent.work()
    assert states(Workstream)[successor] == "validating"
    with pytest.raises(GuardFailed, match="is quarantined"):
        transitions.transition(Workstream, successor, "validation_passed", actor=THE_SYSTEM)

    again = transitions.retry(PatchLedger, patch.pk, actor=THE_SYSTEM).entity
    assert again.workstream_id == successor
    world.forced(again, "committed")

    assert states(Workstream)[successor] == "completed"
    assert states(Run) == {"r": "succeeded"}
    assert_consistent()


def test_a_repeated_task_replaces_its_quarantined_patch() -> None:
    submit(workstream("a", "x"))
    agent = Agent()
    (held,) = agent.claim()
    fields = {"task": held.pk, "attempt": held.attempt}
    lost = scheduling.submit_patch(PatchLedger, actor=agent.actor, patch=make_diff(), **fields).entity
    agent.finish(held)
    world.fire(lost, "validation_failed", error="it touches what it may not")
    successor = transitions.retry(Workstream, "a", actor=THE_SYSTEM).entity.pk
    (held,) = agent.claim()
    fields = {"task": held.pk, "attempt": held.attempt}
    found = scheduling.submit_patch(PatchLedger, actor=agent.actor, patch=make_diff(), **fields).entity
    agent.finish(held)
    world.forced(found, "committed")
    assert states(Workstream)[successor] == "completed"
    assert_consistent()


def make_diff() -> str:
    return str(Patch.objects.create(id=new_id("diff"), diff="--- a\n+++ b\n").pk)


def test_the_successor_of_a_workstream_without_tasks_is_ready() -> None:
    run = submit(workstream("a", "x"))
    transitions.create(Workstream, id="b", run=run.pk, actor=THE_SYSTEM)
    transitions.transition(Workstream, "b", "workstream_cancelled", actor=operator())
    successor = transitions.retry(Workstream, "b", actor=THE_SYSTEM).entity
    assert successor.state == "ready"


def test_a_failed_workstream_with_a_running_gate_cannot_be_retried() -> None:
    submit(workstream("a", task("a1", is_critical=True, max_retries=0), gates=[gate("g")]))
    agent = Agent()
    (held,) = agent.claim()
    transitions.transition(TestGate, "g", "gate_started", actor=THE_SYSTEM)
    agent.fail(held)

    with pytest.raises(GuardFailed, match="test_gate g is still RUNNING"):
        transitions.retry(Workstream, "a", actor=THE_SYSTEM)


def test_a_task_blocked_by_a_retried_row_is_blocked_by_its_successor() -> None:
    submit(workstream("a", task("a1", max_retries=0), task("a2", "a1"), task("a3", gates=["g"]), gates=[gate("g")]))
    agent = Agent(max_concurrent_tasks=2)
    failing, gated = agent.claim()
    agent.fail(failing)
    agent.finish(gated)
    run_gate("g", exit_code=1)
    assert [Task.objects.get(pk=each).blocked_by for each in ("a2", "a3")] == [["a1"], ["g"]]

    successors = [
        transitions.retry(model, old, actor=THE_SYSTEM).entity.pk for model, old in ((Task, "a1"), (TestGate, "g"))
    ]

    assert [Task.objects.get(pk=each).blocked_by for each in ("a2", "a3")] == [[successors[0]], [successors[1]]]


def test_a_validating_workstream_accepts_no_tasks() -> None:
    """A validating workstream never returns to executing, so the task would never start."""
    submit(workstream("a", "a1", gates=[gate("g")]))
    Agent().work()
    assert states(Workstream) == {"a": "validating"}

    with pytest.raises(GuardFailed, match="workstream a is validating: it takes no more tasks"):
        transitions.create(Task, id="late", workstream="a", actor=operator())
    with pytest.raises(GuardFailed, match="takes no more tasks"):
        transitions.retry(Task, "a1", actor=operator(), reason="once more")

    run_gate("g")
    assert (states(Task), states(Run)) == ({"a1": "completed"}, {"r": "succeeded"})
    assert_consistent()


def test_a_task_added_to_a_plan_runs_with_it() -> None:
    submit(workstream("a", "a1"), start=False)
    transitions.create(Task, id="a2", workstream="a", actor=operator())
    transitions.transition(Run, "r", "run_started", actor=operator())
    assert sorted(Agent().work()) == ["a1", "a2"]
    assert states(Run) == {"r": "succeeded"}
    assert_consistent()


def test_a_queued_task_keeps_its_dependency_when_that_is_retried() -> None:
    """A queued task cannot return to waiting, so it keeps its completed dependency."""
    submit(workstream("a", "a1", task("a2", "a1"), task("a3", "a1", "a4"), "a4", task("a5", entry_gates=["g"])),
           gates=[gate("g")])  # fmt: skip
    run_gate("g")
    agent = Agent()
    agent.finish(next(each for each in agent.claim(1) if each.pk == "a1"))

    successor = transitions.retry(Task, "a1", actor=operator(), reason="once more").entity.pk
    transitions.retry(TestGate, "g", actor=operator(), reason="once more")

    assert states(Task) == {
        "a1": "completed", "a2": "queued", "a3": "blocked", "a4": "queued", "a5": "queued", successor: "queued",
    }  # fmt: skip
    assert [*Task.objects.get(pk="a2").depends_on.values_list("pk", flat=True)] == ["a1"]
    assert Task.objects.get(pk="a3").blocked_by == sorted([successor, "a4"])
    assert_consistent()
    assert agent.work()[-1] == "a3"
    assert states(Workstream) == {"a": "completed"}
