"""A plan that was submitted runs to its end by itself."""

import pytest

from statecore import door, integrity, scheduling, stuck
from statecore.journal import Event
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import GuardFailed
from statecore.kernel.ulid import new_id
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.workstream import Workstream
from statecore.records import Patch
from tests.races.contest import operator
from tests.support import world
from tests.work.agents import Agent, gate, ran, states, submit, task, workstream

pytestmark = pytest.mark.django_db


def all_is_well() -> None:
    assert [str(finding) for finding in integrity.check_all()] == []


def test_a_plan_runs_to_success() -> None:
    submit(
        workstream("a", "a1", task("a2", "a1"), task("a3", "a1")),
        workstream("b", "b1", depends_on=["a"]),
    )
    assert states(Workstream) == {"a": "ready", "b": "blocked"}
    assert states(Task) == {"a1": "queued", "a2": "blocked", "a3": "blocked", "b1": "pending"}
    assert Agent().work() == ["a1", "a2", "a3", "b1"]
    assert set(states(Task).values()) == {"completed"}
    assert states(Workstream) == {"a": "completed", "b": "completed"}
    assert states(Run) == {"r": "succeeded"}
    all_is_well()


def test_every_event_of_a_cascade_names_its_cause() -> None:
    submit(workstream("a", "a1"))
    agent = Agent()
    (held,) = agent.claim()
    outcome = agent.finish(held)
    told = {entry.event_id: (entry.entity_type, entry.to_state) for entry in outcome.caused}
    causes = {told[entry.event_id]: entry.caused_by for entry in outcome.caused}
    assert list(told.values()) == [
        ("worker", "idle"),
        ("task", "completed"),
        ("workstream", "validating"),
        ("workstream", "completed"),
        ("run", "succeeded"),
    ]
    assert causes["task", "completed"] == outcome.entry.event_id
    chain = [told[cause] for what, cause in causes.items() if what[0] in ("workstream", "run")]
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
    all_is_well()


def test_a_failure_that_is_not_critical_leaves_the_workstream_to_a_decision() -> None:
    submit(workstream("a", {"id": "a1", "max_retries": 0}, task("a2", "a1"), "a3"))
    agent = Agent()
    (held,) = agent.claim()
    agent.fail(held)
    assert agent.work() == ["a3"]
    assert states(Task) == {"a1": "failed", "a2": "blocked", "a3": "completed"}
    assert states(Workstream) == {"a": "executing"}
    successor = door.retry(Task, "a1", actor=world.operator()).entity
    assert agent.work() == [successor.pk, "a2"]
    assert states(Run) == {"r": "succeeded"}
    all_is_well()


def test_canceling_a_run_cancels_everything_and_tells_the_agent() -> None:
    submit(workstream("a", "a1", "a2"), workstream("b", "b1", depends_on=["a"]))
    agent = Agent()
    (held,) = agent.claim()
    door.transition(Run, "r", "run_canceled", actor=world.operator())
    assert set(states(Task).values()) == {"cancelled"}
    assert set(states(Workstream).values()) == {"cancelled"}
    assert scheduling.beat("w", actor=agent.actor) == {
        "state": "idle",
        "commands": [{"cancel": held.pk, "attempt": held.attempt}],
    }
    all_is_well()


def test_an_exit_gate_holds_a_task_until_it_has_passed() -> None:
    submit(workstream("a", {"id": "a1", "gates": ["g"]}, gates=[gate("g")]))
    Agent().work()
    assert states(Task) == {"a1": "validating"}
    ran("g")
    assert states(Task) == {"a1": "completed"}
    assert states(Run) == {"r": "succeeded"}


def test_a_failed_gate_blocks_and_its_re_run_lets_through() -> None:
    submit(workstream("a", {"id": "a1", "gates": ["g"]}, gates=[gate("g"), gate("h", depends_on=["g"])]))
    agent = Agent()
    agent.work()
    ran("g", exit_code=1)
    assert states(Task) == {"a1": "blocked"}
    assert Task.objects.get().blocked_by == ["g"]
    assert states(TestGate) == {"g": "FAILED", "h": "BLOCKED"}
    again = door.retry(TestGate, "g", actor=world.operator()).entity
    assert states(Task) == {"a1": "blocked"}
    ran(again.pk)
    assert states(TestGate) == {"g": "FAILED", again.pk: "PASSED", "h": "PENDING"}
    ran("h")
    assert agent.work() == ["a1"]
    assert states(Run) == {"r": "succeeded"}
    all_is_well()


def test_an_entry_gate_keeps_a_task_from_being_queued() -> None:
    submit(workstream("a", {"id": "a1", "entry_gates": ["g"]}, gates=[gate("g")]))
    agent = Agent()
    assert agent.work() == []
    assert states(Task) == {"a1": "blocked"}
    ran("g")
    assert agent.work() == ["a1"]


def test_a_quarantined_patch_fails_a_workstream_that_has_begun_and_calls_off_one_that_has_not() -> None:
    submit(workstream("a", "a1", "a2"), workstream("b", "b1"), workstream("c", "c1", depends_on=["b"]))
    agent = Agent()
    agent.claim()
    for name in "abc":
        patch = world.patch(workstream=Workstream.objects.get(pk=name))
        world.fire(patch, "validation_failed", error="it touches what it may not")
    assert states(Workstream) == {"a": "failed", "b": "cancelled", "c": "cancelled"}
    assert set(states(Task).values()) == {"cancelled"}
    assert agent.row.state == "idle"
    all_is_well()


def test_the_events_of_a_plan_stand_in_one_transaction_and_verify() -> None:
    submit(workstream("a", *(f"t{number}" for number in range(30))), start=False)
    assert states(Run) == {"r": "pending"}
    assert set(states(Task).values()) == {"pending"}
    assert Event.objects.filter(kind="created").count() == 32
    door.transition(Run, "r", "run_started", actor=THE_SYSTEM)
    assert set(states(Task).values()) == {"queued"}
    all_is_well()


def test_a_task_claimed_while_its_run_is_cancelled_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever cancels leaves a locked task to the claim that holds it, which looks around and cancels it."""
    submit(workstream("a", "a1"))
    agent = Agent()
    with monkeypatch.context() as unseen:
        unseen.setattr(registry, "reactions", [])
        door.transition(Run, "r", "run_canceled", actor=world.operator())
    assert agent.claim() == []
    assert states(Task) == {"a1": "cancelled"}
    assert (agent.row.state, agent.row.current_load) == ("idle", 0)


def test_a_failed_workstream_is_retried_with_the_gates_it_never_came_to() -> None:
    submit(
        workstream(
            "a", task("a1", is_critical=True, max_retries=0), task("a2", "a1", gates=["late"]),
            gates=[gate("late"), gate("own", depends_on=["late"])],
        )
    )  # fmt: skip
    agent = Agent()
    agent.fail(*agent.claim())
    assert states(TestGate) == {"late": "PENDING", "own": "PENDING"}
    heir = door.retry(Workstream, "a", actor=THE_SYSTEM).entity

    assert {each.retry_of_id for each in heir.gates.all()} == {"late", "own"}
    for done in ("late", "own"):
        agent.work()
        ran(TestGate.objects.get(retry_of=done).pk)
    assert states(Run) == {"r": "succeeded"}


def test_a_workstream_that_failed_when_its_tasks_were_completed_is_retried_by_validating_it_again() -> None:
    submit(workstream("a", "x", gates=[gate("g")]))
    Agent().work()
    ran("g", 1)
    heir = "a"
    for exit_code in (1, 0):  # the second successor has none of its own either to succeed
        door.transition(Workstream, heir, "validation_failed", actor=THE_SYSTEM, params={"error": "g has failed"})
        heir = door.retry(Workstream, heir, actor=THE_SYSTEM).entity.pk
        assert states(Workstream)[heir] == "validating"
        ran(TestGate.objects.get(workstream=heir).pk, exit_code)
    assert states(Workstream)[heir] == "completed"
    assert states(Run) == {"r": "succeeded"}
    all_is_well()


def test_a_workstream_that_failed_by_a_quarantined_patch_does_not_complete_without_it() -> None:
    submit(workstream("a", "x", gates=[gate("g")]))
    Agent().work()
    patch = world.patch(workstream=Workstream.objects.get(pk="a"))
    world.fire(patch, "validation_failed", error="it touches what it may not")
    assert states(Workstream) == {"a": "failed"}
    heir = "a"
    for _ in range(3):  # however far back
        heir = door.retry(Workstream, heir, actor=THE_SYSTEM).entity.pk
        assert states(Workstream)[heir] == "ready"
        door.transition(Workstream, heir, "workstream_cancelled", actor=operator())
    heir = door.retry(Workstream, heir, actor=THE_SYSTEM).entity.pk
    said = stuck.explain(Workstream, heir).sentence
    assert said.startswith(f"workstream {heir} waits for patch {patch.pk}, which was quarantined")

    world.fire(patch, "discarded", actor=operator())

    assert states(Workstream)[heir] == "validating", "dropped patches don't count"
    all_is_well()


def test_a_successor_with_tasks_of_its_own_does_not_complete_past_a_quarantined_patch_either() -> None:
    submit(workstream("a", "x", task("y", "x", max_retries=0, is_critical=True)))
    agent = Agent()
    agent.finish(*agent.claim())
    patch = world.patch(workstream=Workstream.objects.get(pk="a"))
    (held,) = agent.claim()
    world.fire(patch, "validation_failed", error="it touches what it may not")
    assert (states(Workstream), held.pk) == ({"a": "failed"}, "y")
    heir = door.retry(Workstream, "a", actor=THE_SYSTEM).entity.pk
    agent.work()
    assert states(Workstream)[heir] == "validating"
    with pytest.raises(GuardFailed, match="is quarantined"):
        door.transition(Workstream, heir, "validation_passed", actor=THE_SYSTEM)

    again = door.retry(PatchLedger, patch.pk, actor=THE_SYSTEM).entity
    assert again.workstream_id == heir
    world.forced(again, "committed")

    assert states(Workstream)[heir] == "completed"
    assert states(Run) == {"r": "succeeded"}
    all_is_well()


def test_a_task_that_is_done_again_answers_for_its_patch_in_quarantine() -> None:
    submit(workstream("a", "x"))
    agent = Agent()
    (held,) = agent.claim()
    fields = {"task": held.pk, "attempt": held.attempt}
    lost = scheduling.hand_in(PatchLedger, actor=agent.actor, patch=a_diff(), **fields).entity
    agent.finish(held)
    world.fire(lost, "validation_failed", error="it touches what it may not")
    heir = door.retry(Workstream, "a", actor=THE_SYSTEM).entity.pk
    (held,) = agent.claim()
    fields = {"task": held.pk, "attempt": held.attempt}
    found = scheduling.hand_in(PatchLedger, actor=agent.actor, patch=a_diff(), **fields).entity
    agent.finish(held)
    world.forced(found, "committed")
    assert states(Workstream)[heir] == "completed"
    all_is_well()


def a_diff() -> str:
    return str(Patch.objects.create(id=new_id("diff"), diff="--- a\n+++ b\n").pk)


def test_the_successor_of_a_workstream_that_never_had_a_task_waits_for_one() -> None:
    run = submit(workstream("a", "x"))
    door.create(Workstream, id="b", run=run.pk, actor=THE_SYSTEM)
    door.transition(Workstream, "b", "workstream_cancelled", actor=operator())
    heir = door.retry(Workstream, "b", actor=THE_SYSTEM).entity
    assert heir.state == "ready"


def test_a_failed_workstream_whose_gate_still_runs_is_not_retried_yet() -> None:
    submit(workstream("a", task("a1", is_critical=True, max_retries=0), gates=[gate("g")]))
    agent = Agent()
    (held,) = agent.claim()
    door.transition(TestGate, "g", "gate_started", actor=THE_SYSTEM)
    agent.fail(held)

    with pytest.raises(GuardFailed, match="test_gate g is still RUNNING"):
        door.retry(Workstream, "a", actor=THE_SYSTEM)


def test_who_is_blocked_by_what_was_retried_is_blocked_by_its_successor() -> None:
    submit(workstream("a", task("a1", max_retries=0), task("a2", "a1"), task("a3", gates=["g"]), gates=[gate("g")]))
    agent = Agent(max_concurrent_tasks=2)
    failing, gated = agent.claim()
    agent.fail(failing)
    agent.finish(gated)
    ran("g", exit_code=1)
    assert [Task.objects.get(pk=each).blocked_by for each in ("a2", "a3")] == [["a1"], ["g"]]

    heirs = [door.retry(model, old, actor=THE_SYSTEM).entity.pk for model, old in ((Task, "a1"), (TestGate, "g"))]

    assert [Task.objects.get(pk=each).blocked_by for each in ("a2", "a3")] == [[heirs[0]], [heirs[1]]]


def test_a_workstream_that_is_validated_takes_no_more_tasks() -> None:
    """It never goes back to executing, so nobody would ever start one."""
    submit(workstream("a", "a1", gates=[gate("g")]))
    Agent().work()
    assert states(Workstream) == {"a": "validating"}

    with pytest.raises(GuardFailed, match="workstream a is validating: it takes no more tasks"):
        door.create(Task, id="late", workstream="a", actor=operator())
    with pytest.raises(GuardFailed, match="takes no more tasks"):
        door.retry(Task, "a1", actor=operator(), reason="once more")

    ran("g")
    assert (states(Task), states(Run)) == ({"a1": "completed"}, {"r": "succeeded"})
    all_is_well()


def test_a_task_that_was_added_to_a_plan_keeps_nobody_waiting() -> None:
    submit(workstream("a", "a1"), start=False)
    door.create(Task, id="a2", workstream="a", actor=operator())
    door.transition(Run, "r", "run_started", actor=operator())
    assert sorted(Agent().work()) == ["a1", "a2"]
    assert states(Run) == {"r": "succeeded"}
    all_is_well()


def test_who_is_past_what_it_waited_for_keeps_it_when_that_is_done_again() -> None:
    """Nothing leads back from the queue to waiting, so that it would be started before what it waits for."""
    submit(workstream("a", "a1", task("a2", "a1"), task("a3", "a1", "a4"), "a4", task("a5", entry_gates=["g"])),
           gates=[gate("g")])  # fmt: skip
    ran("g")
    agent = Agent()
    agent.finish(next(each for each in agent.claim(1) if each.pk == "a1"))

    heir = door.retry(Task, "a1", actor=operator(), reason="once more").entity.pk
    door.retry(TestGate, "g", actor=operator(), reason="once more")

    assert states(Task) == {
        "a1": "completed", "a2": "queued", "a3": "blocked", "a4": "queued", "a5": "queued", heir: "queued",
    }  # fmt: skip
    assert [*Task.objects.get(pk="a2").depends_on.values_list("pk", flat=True)] == ["a1"]
    assert Task.objects.get(pk="a3").blocked_by == sorted([heir, "a4"])
    all_is_well()
    assert agent.work()[-1] == "a3"
    assert states(Workstream) == {"a": "completed"}
