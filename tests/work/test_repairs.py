"""The repair loop: rejected work is given out again with the reason, as often as `max_repairs` allows."""

from __future__ import annotations

from typing import Any

import pytest

from statecore import transitions
from statecore.api.claims import ClaimFields, claim_once
from statecore.kernel.refusals import GuardFailed
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.read_models import stuck
from statecore.records import Patch
from statecore.scheduling import register, submit_patch, submit_plan
from tests.support import world
from tests.support.world import AGENT

pytestmark = pytest.mark.django_db

GATE = {"id": "g", "gate_type": "UNIT", "command": "pytest"}
FAILED = {"error": "Tests failed: pytest", "details": {"stdout": "1 failed", "stderr": "E assert"}}


def submit(workstream_gates: Any = (), plan: Any = None, **task: Any) -> None:
    parts = [{"id": "w", "tasks": [{"id": "t", **task}], "gates": list(workstream_gates)}]
    whole = {"id": "r", "phase": world.phase().pk, "start": True, "workstreams": parts, **(plan or {})}
    submit_plan(whole, actor=world.operator())
    register(Worker, actor=AGENT, id="w1")


def claim() -> dict[str, Any]:
    (task,) = claim_once("w1", ClaimFields(), AGENT)["tasks"]
    return dict(task)


def hand_in(name: str) -> None:
    text = Patch.objects.create(id=f"text-{name}", diff="--- a\n+++ b\n")
    attempt = Task.objects.get(pk="t").attempt
    submit_patch(PatchLedger, actor=AGENT, task="t", attempt=attempt, id=name, patch=text.pk)


def complete(task: str = "t") -> None:
    found = Task.objects.get(pk=task)
    world.fire(found, "execution_completed", actor=AGENT, attempt=found.attempt, exit_code=0, output="I am done")


def advance(patch: str, *triggers: str) -> None:
    params: dict[str, dict[str, Any]] = {
        "validation_passed": dict.fromkeys(("format_passed", "scope_passed", "constraints_passed"), True),
        "tests_failed": FAILED,
        "commit_succeeded": {"commit_sha": "0" * 40},
    }
    for trigger in triggers:
        world.fire(PatchLedger.objects.get(pk=patch), trigger, **params.get(trigger, {}))


APPLIED = ("validation_passed", "accepted_for_merge", "apply_succeeded")


def run_gate(gate: str, exit_code: int) -> None:
    world.fire(TestGate.objects.get(pk=gate), "gate_started")
    trigger = "gate_failed" if exit_code else "gate_passed"
    world.fire(TestGate.objects.get(pk=gate), trigger, exit_code=exit_code, stdout="2 failed")


def states() -> tuple[str, str, str]:
    task, parent = Task.objects.get(pk="t"), Workstream.objects.get()
    return str(task.state), str(parent.state), str(Run.objects.get().state)


def test_without_repairs_a_quarantined_patch_fails_its_workstream() -> None:
    submit()
    claim()
    hand_in("p1")
    complete()
    advance("p1", *APPLIED, "tests_failed")
    assert states() == ("cancelled", "failed", "running")


def test_a_patch_that_fails_its_tests_is_repaired_and_the_successor_replaces_it() -> None:
    submit(max_repairs=1)
    claim()
    hand_in("p1")
    complete()
    advance("p1", *APPLIED, "tests_failed")
    assert states() == ("queued", "executing", "running")

    assert claim()["previous"] == {
        "attempt": 1, "exit_code": 0, "error": "Tests failed: pytest", "output": "1 failed\nE assert", "patch": "p1",
    }  # fmt: skip
    hand_in("p2")
    assert PatchLedger.objects.get(pk="p1").state == "dropped"
    complete()
    advance("p2", *APPLIED, "tests_passed", "commit_succeeded")
    assert states() == ("completed", "completed", "succeeded")
    assert [each.check for each in integrity.check_all()] == []


def test_the_workstream_fails_when_the_repairs_are_used_up() -> None:
    submit(plan={"max_repairs": 1})
    for patch in ("p1", "p2"):
        claim()
        hand_in(patch)
        complete()
        advance(patch, *APPLIED, "tests_failed")
    assert states() == ("cancelled", "failed", "running")


def test_a_patch_that_fails_while_its_task_still_runs_is_repaired_after_the_report() -> None:
    submit(max_repairs=1)
    claim()
    hand_in("p1")
    advance("p1", *APPLIED, "tests_failed")
    assert states() == ("running", "executing", "running")
    complete()
    assert states() == ("queued", "executing", "running")
    claim()
    complete()  # without a new patch
    assert states() == ("cancelled", "failed", "running")


def test_a_failed_attempt_to_repair_fails_the_workstream() -> None:
    submit(max_repairs=1, max_retries=0)
    claim()
    hand_in("p1")
    complete()
    advance("p1", *APPLIED, "tests_failed")
    claim()
    task = Task.objects.get()
    world.fire(task, "execution_failed", actor=AGENT, attempt=task.attempt, error="I give up")
    assert states() == ("failed", "failed", "running")


def test_a_failed_exit_gate_gives_the_task_out_again_and_is_run_again_afterwards() -> None:
    submit([GATE], gates=["g"], max_repairs=1)
    claim()
    complete()
    run_gate("g", 1)
    assert states() == ("queued", "executing", "running")
    previous = claim()["previous"]
    assert (previous["error"], previous["output"]) == ("gate g failed with exit code 1", "2 failed")
    complete()
    (rerun,) = TestGate.objects.filter(retry_of="g")
    run_gate(rerun.pk, 0)
    assert states() == ("completed", "completed", "succeeded")


def test_an_exit_gate_blocks_when_the_repairs_are_used_up() -> None:
    submit([GATE], gates=["g"], max_repairs=1)
    for _ in range(2):
        claim()
        complete()
        run_gate(TestGate.objects.get(successor=None).pk, 1)
    assert states() == ("blocked", "executing", "running")


def test_a_workstream_with_a_failed_final_gate_accepts_a_task_that_repairs_it() -> None:
    submit([GATE], plan={"max_repairs": 1})
    claim()
    complete()
    run_gate("g", 1)
    assert states() == ("completed", "validating", "running")
    assert "a task that repairs it" in str(stuck.explain(Workstream, "w").as_dict())

    world.created("Task", id="fix", workstream="w")

    (rerun,) = TestGate.objects.filter(retry_of="g")
    with pytest.raises(GuardFailed):
        world.created("Task", workstream="w")
    claim()
    assert states() == ("completed", "validating", "running")
    complete("fix")
    assert [each for each in integrity.check_all() if each.entity_type != "worker"] == []
    run_gate(rerun.pk, 1)
    assert states() == ("completed", "failed", "running")


def test_a_critical_task_that_fails_before_its_workstream_executes_fails_it() -> None:
    run = world.run()
    parent = world.workstream(run=run, expected_tasks=2)
    task = world.task(workstream=parent, is_critical=True)
    world.forced(task, "failed")
    parent.refresh_from_db()
    assert parent.state == "failed"
    assert world.events_of(parent)[-1]["trigger"] == "critical_task_failed"


def test_an_operator_still_drops_a_quarantined_patch() -> None:
    entry = world.forced(world.patch(), "quarantined")
    dropped = transitions.transition(PatchLedger, entry.pk, "discarded", actor=world.operator())
    assert dropped.entity is not None
    assert dropped.entity.state == "dropped"
