"""Waivers: what waits for a gate treats it as passed while a waiver is in effect."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from statecore import transitions
from statecore.journal import EventKind
from statecore.kernel import clock
from statecore.kernel.refusals import GuardFailed, Invalid, PermissionDenied, Refusal
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.read_models import stuck
from statecore.scheduling import claim, register, submit_plan
from statecore.transitions import approvals, waivers
from statecore.transitions.override import Requested
from tests.support import world
from tests.support.world import AGENT, REASON

pytestmark = pytest.mark.django_db

GATE = {"id": "g", "gate_type": "UNIT", "command": "pytest"}
SOON = timedelta(hours=1)


def submit(task: dict[str, Any] | None = None, gates: Any = (GATE,), **workstream: Any) -> None:
    tasks = [{"id": "t", **(task or {})}]
    parts = [{"id": "w", "tasks": tasks, "gates": list(gates), **workstream}]
    submit_plan({"id": "r", "phase": world.phase().pk, "start": True, "workstreams": parts}, actor=world.operator())


def finish_task() -> None:
    register(Worker, actor=AGENT, id="w1")
    claim("w1", actor=AGENT)
    world.fire(Task.objects.get(), "execution_completed", exit_code=0)


def fail(gate: str = "g") -> None:
    world.fire(TestGate.objects.get(pk=gate), "gate_started")
    world.fire(TestGate.objects.get(pk=gate), "gate_failed", exit_code=1)


def waive(gate: str = "g", **given: Any) -> transitions.Outcome:
    given = {"actor": world.operator(), "reason": REASON, "category": "infrastructure", **given}
    return transitions.waive(TestGate, gate, **given)


def state(model: Any) -> str:
    return str(model.objects.get().state)


def test_a_waived_exit_gate_completes_the_task_and_the_event_names_the_gate() -> None:
    submit({"gates": ["g"]})
    finish_task()
    fail()
    assert state(Task) == "blocked"

    outcome = waive()

    gate = TestGate.objects.get()
    assert (gate.state, gate.waived) == ("FAILED", True)
    assert gate.waiver == {
        "by": "ada", "reason": REASON, "category": "infrastructure", "at": gate.waiver["at"], "expires_at": None,
    }  # fmt: skip
    assert outcome.entry is not None
    assert (outcome.entry.kind, outcome.entry.trigger) == (EventKind.EDITED, "waived")
    assert outcome.entry.as_dict()["category"] == "infrastructure"
    # As after a re-run that passes, the blocked task starts again.
    assert state(Task) == "queued"
    relied = [event["metadata"].get("waived_gates") for event in world.events_of(Task.objects.get())]
    assert relied[-2:] == [["g"], ["g"]]
    claim("w1", actor=AGENT)
    world.fire(Task.objects.get(), "execution_completed", exit_code=0)
    assert (state(Task), state(Workstream), state(Run)) == ("completed", "completed", "succeeded")
    assert world.events_of(Workstream.objects.get())[-1]["metadata"]["waived_gates"] == ["g"]
    assert integrity.check_all() == []


def test_a_waived_entry_gate_lets_its_task_start_before_it_has_run() -> None:
    submit({"entry_gates": ["g"]})
    assert state(Task) == "blocked"
    waive()
    assert (state(Task), state(TestGate)) == ("queued", "PENDING")


def test_a_waiver_of_a_final_gate_prevents_the_failure_of_its_workstream() -> None:
    other = {**GATE, "id": "h"}
    submit(gates=[{**GATE, "max_reruns": 1}, other])
    finish_task()
    fail()
    (rerun,) = TestGate.objects.filter(retry_of="g")
    waive(rerun.pk)
    fail(rerun.pk)
    assert (state(Workstream), TestGate.objects.count()) == ("validating", 3)
    world.fire(TestGate.objects.get(pk="h"), "gate_started")
    world.fire(TestGate.objects.get(pk="h"), "gate_passed", exit_code=0)
    assert (state(Workstream), state(Run)) == ("completed", "succeeded")


def test_a_gate_runs_after_a_waived_dependency() -> None:
    world.gate(id="a")
    world.gate(id="b", depends_on=["a"])
    fail("a")
    assert TestGate.objects.get(pk="b").state == "BLOCKED"
    waive("a")
    assert world.fire(TestGate.objects.get(pk="b"), "gate_started").state == "RUNNING"


def test_an_expired_waiver_blocks_what_still_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    submit({"gates": ["g"]})
    fail()
    waive(expires_at=clock.now() + SOON)
    assert (state(Task), waivers.expire(TestGate)) == ("queued", 0)
    monkeypatch.setattr(clock, "_offset", 2 * SOON)

    assert (waivers.expire(TestGate), waivers.expire(TestGate)) == (1, 0)

    gate = TestGate.objects.get()
    assert (state(Task), gate.waived, gate.waiver["by"]) == ("blocked", False, "ada")
    assert world.events_of(gate)[-1]["trigger"] == "waiver_expired"
    assert "blocked by gate g" in str(stuck.explain(Task, "t").as_dict()).replace("test_gate", "gate")


def test_what_ended_before_the_expiry_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    submit({"gates": ["g"]})
    waive(expires_at=clock.now() + SOON)
    finish_task()
    assert state(Run) == "succeeded"
    monkeypatch.setattr(clock, "_offset", 2 * SOON)
    assert waivers.expire(TestGate) == 1
    assert (state(Task), state(Run)) == ("completed", "succeeded")
    assert {finding.check for finding in integrity.check_all()} <= {"live_workers_are_heard_from"}


def test_a_waiver_takes_its_permission_and_an_operator() -> None:
    world.gate(id="g")
    for actor in (AGENT, world.operator_with("operate_testgate", "override_testgate")):
        with pytest.raises(PermissionDenied) as refused:
            waive(actor=actor)
        assert refused.value.facts["required"] == "statecore.waive_testgate"
    assert waive(actor=world.operator_with("waive_testgate", name="eve")).changed


def test_a_waiver_takes_a_reason_a_category_and_an_expiry_in_the_future() -> None:
    world.gate(id="g")
    with pytest.raises(Invalid) as refused:
        waive(reason="short", category="none", expires_at=clock.now() - SOON)
    assert set(refused.value.facts["errors"]) == {"reason", "category", "expires_at"}


def test_gates_that_passed_were_retried_or_belong_to_an_ended_workstream_are_not_waived() -> None:
    submit({"gates": ["g"]}, gates=[GATE, {**GATE, "id": "h"}])
    world.forced(TestGate.objects.get(pk="h"), "PASSED")
    fail()
    transitions.retry(TestGate, "g", actor=world.operator())
    world.forced(Workstream.objects.get(), "failed")
    (rerun,) = TestGate.objects.filter(retry_of="g")
    codes = {}
    for pk in ("g", "h", rerun.pk):
        with pytest.raises(Refusal) as refused:
            waive(pk)
        codes[pk] = refused.value.code
    assert codes == {"g": "already_retried", "h": "guard_failed", rerun.pk: "guard_failed"}


def test_a_dry_run_shows_what_would_follow_and_changes_nothing() -> None:
    submit({"gates": ["g"]})
    fail()
    outcome = waive(dry_run=True)
    assert [entry.to_state for entry in outcome.caused] == ["pending", "queued"]
    assert (state(Task), TestGate.objects.get().waived) == ("blocked", False)


def test_a_policy_makes_a_waiver_a_request_that_another_person_approves(settings: Any) -> None:
    settings.STATECORE_SECOND_PERSON = {"test_gate->waived"}
    submit({"gates": ["g"]})
    fail()
    ada, eve = (world.operator_with("waive_testgate", "override_testgate", name=name) for name in ("ada", "eve"))

    requested = waive(actor=ada, expires_at=clock.now() + SOON)

    assert isinstance(requested, Requested)
    assert not TestGate.objects.get().waived
    pending = approvals.get(requested.answer["approval"]["id"])
    assert [entry.to_state for entry in approvals.preview(pending, eve).caused] == ["pending", "queued"]
    approved = approvals.approve(pending.pk, actor=eve)
    assert approved.entry is not None
    assert approved.entry.as_dict()["approver"] == "eve"
    gate = TestGate.objects.get()
    assert (gate.waived, gate.waiver["by"], state(Task)) == (True, "ada", "queued")
    assert gate.waiver["expires_at"] is not None


def test_a_waiver_that_leads_to_a_protected_state_takes_a_second_person(settings: Any) -> None:
    settings.STATECORE_SECOND_PERSON = {"run->succeeded"}
    submit()
    finish_task()
    ada = world.operator_with("waive_testgate", name="ada")
    assert isinstance(waive(actor=ada), Requested)
    assert state(Run) == "running"


def test_a_waiver_of_a_retried_request_is_made_once() -> None:
    world.gate(id="g")
    with pytest.raises(GuardFailed):
        waive(world.forced(world.gate(), "PASSED").pk)
    key = transitions.RequestKey("k", "waive", "0" * 64)
    first, second = (waive(request=key) for _ in range(2))
    assert (first.replayed, second.replayed) == (False, True)
    assert TestGate.objects.get(pk="g").version == 2
