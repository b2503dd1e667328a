"""Override commands and playbooks."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.test import override_settings

from statecore.executors import compensation, patches
from statecore.executors.rollback import record_step, steps_of
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.machines.circuit_breaker import CircuitBreaker
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.records.compensation_step import Action
from tests.agent.process import claim_as_w1, state, submit, task
from tests.cli.process import REASON, Statecore
from tests.executors.support import patch, reload
from tests.executors.work_tree import HELLO, WorkTree, diff_replacing
from tests.support import forked, world
from tests.support.sequencer import ROOT
from tests.support.site import Site
from tests.support.waiting import until


@pytest.mark.parametrize(("verb", "ends"), [("complete-task", "completed"), ("fail-task", "failed")])
def test_a_running_task_is_forced_to_a_final_state(statecore: Statecore, verb: str, ends: str) -> None:
    submit({"id": "t1"})
    claim_as_w1()

    output = statecore(verb, "t1", *REASON).out

    assert output.startswith(f"task t1: running → {ends} (manual_override)")
    assert state("t1") == ends
    event = Event.objects.filter(entity_id="t1").latest("sequence").as_dict()
    assert (event["kind"], event["operator"], event["reason"]) == ("override", "ada", REASON[1])


def test_complete_task_verifies_the_output_file(statecore: Statecore, tmp_path: Path) -> None:
    submit({"id": "t1"})
    claim_as_w1()
    output = tmp_path / "report.txt"

    statecore("complete-task", "t1", *REASON, "--verify-output", str(output), code=1)
    output.touch()
    statecore("complete-task", "t1", *REASON, "--verify-output", str(output), code=1)
    assert state("t1") == "running"
    output.write_text("all green")
    statecore("complete-task", "t1", *REASON, "--verify-output", str(output))

    event = Event.objects.filter(entity_id="t1").latest("sequence").as_dict()
    assert event["metadata"]["verified_output"] == "report.txt"


def test_a_dry_run_shows_everything_and_changes_nothing(statecore: Statecore) -> None:
    submit({"id": "t1"}, {"id": "t2", "depends_on": ["t1"]})
    claim_as_w1()

    output = statecore("complete-task", "t1", *REASON, "--dry-run").out

    assert "dry run: task t1: running → completed" in output
    assert "→ dry run: task t2: blocked → pending" in output
    assert (state("t1"), state("t2")) == ("running", "blocked")


def test_a_live_task_is_reset_and_a_final_one_gets_a_successor(statecore: Statecore) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    claim_as_w1("t1")

    assert "running → pending" in statecore("reset-task", "t1", *REASON).out
    statecore("fail-task", "t1", *REASON)
    for dry_run in (("reset-task", "t1", *REASON), ("retry", "tasks", "t1")):
        assert statecore(*dry_run, "--dry-run").out == "dry run: the successor of t1 would be queued\n"
    assert not hasattr(task("t1"), "successor")
    assert "the successor of t1" in statecore("reset-task", "t1", *REASON).out
    assert task("t1").successor.retry_count == 0


def test_a_reset_clears_the_retry_count_on_request_and_the_event_shows_it(statecore: Statecore) -> None:
    submit({"id": "t1", "max_retries": 2})
    world.touched(task("t1"), retry_count=2)

    statecore("fail-task", "t1", *REASON, "--dry-run")
    statecore("override", "tasks", "t1", "blocked", *REASON)
    assert task("t1").retry_count == 2
    statecore("reset-task", "t1", *REASON, "--clear-retry-count")

    assert task("t1").retry_count == 0
    forced = Event.objects.filter(entity_id="t1", kind="override").latest("sequence").as_dict()
    assert forced["metadata"]["clear_retry_count"] is True
    assert forced["metadata"]["retry_count"] == 0


def test_a_blocked_task_is_unblocked(statecore: Statecore) -> None:
    submit({"id": "t1", "required_capabilities": ["git"]}, {"id": "t2", "depends_on": ["t1"]})

    assert statecore("unblock-task", "t2", *REASON).out == "task t2: blocked → queued (manual_override)\n"
    assert state("t2") == "queued"
    assert "task t2 is queued, not blocked" in statecore("unblock-task", "t2", *REASON, code=3).err
    claim_as_w1("t2")


def test_a_task_blocked_by_a_failed_gate_is_not_unblocked_and_the_command_gives_the_reason(
    statecore: Statecore,
) -> None:
    gate = {"id": "g", "gate_type": "UNIT", "command": "pytest"}
    submit({"id": "t1", "entry_gates": ["g"]}, gates=[gate])
    world.forced(TestGate.objects.get(), "FAILED")
    before = Event.objects.filter(entity_id="t1").count()

    output = statecore("unblock-task", "t1", *REASON, code=3).err

    assert "nothing was changed: task t1 would be blocked again by the failed gate g" in output
    assert "statecore retry gates g, or waive it: statecore waive-gate g" in output
    assert (state("t1"), Event.objects.filter(entity_id="t1").count()) == ("blocked", before)


def test_a_failed_gate_is_waived_for_some_hours(statecore: Statecore) -> None:
    submit({"id": "t1", "entry_gates": ["g"]}, gates=[{"id": "g", "gate_type": "UNIT", "command": "pytest"}])
    world.forced(TestGate.objects.get(), "FAILED")

    assert "dry run: task t1: blocked → pending" in statecore("waive-gate", "g", *REASON, "--dry-run").out
    assert "test_gate g: FAILED → FAILED (waived)" in statecore("waive-gate", "g", *REASON, "--hours", "2").out
    assert state("t1") == "queued"
    assert TestGate.objects.get().waiver["expires_at"] is not None


def test_workstreams_are_validated_and_failed(statecore: Statecore) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    claim_as_w1("t1")

    assert "executing → validating" in statecore("validate-workstream", "w1", *REASON).out
    assert "validating → failed" in statecore("fail-workstream", "w1", *REASON).out


def test_a_breaker_is_reset(statecore: Statecore) -> None:
    world.open_breaker("pytest")

    assert "OPEN → CLOSED" in statecore("reset-breaker", "pytest", *REASON).out


def make_committed_patch() -> PatchLedger:
    return world.forced(world.patch(workstream=world.workstream()), "committed")  # type: ignore[no-any-return]


def test_a_patch_is_not_rolled_back_without_its_revert(statecore: Statecore) -> None:
    entry = make_committed_patch()

    assert "cannot be forced" in statecore("override", "patches", entry.pk, "rolled_back", *REASON, code=3).err
    output = statecore("rollback-patch", entry.pk, "--reason", "it broke the parser", code=6).err
    assert "must be the commit that reverted the patch" in output
    assert PatchLedger.objects.get().state == "committed"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--reason", "short", "--category", "other"), "reason"),
        (("--reason", REASON[1], "--category", "x"), "category"),
    ],
)
def test_an_invalid_reason_or_category_is_refused(statecore: Statecore, words: tuple[str, ...], complaint: str) -> None:
    submit({"id": "t1"})

    assert complaint in statecore("fail-task", "t1", *words, code=6).err
    assert state("t1") == "queued"


@pytest.mark.parametrize(("answer", "code", "ends"), [("n", 1, "queued"), ("y", 0, "failed")])
def test_a_terminal_shows_the_dry_run_and_prompts_for_confirmation(
    statecore: Statecore, answer: str, code: int, ends: str
) -> None:
    submit({"id": "t1"})
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as terminal:
        process = forked.Popen(
            [sys.executable, "-m", "statecore_client.cli", "fail-task", "t1", *REASON], cwd=ROOT, env=statecore.environ,
            stdin=theirs, stdout=subprocess.PIPE, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        terminal.write(f"{answer}\n".encode())
        shown, _ = process.communicate(timeout=30)

    assert process.returncode == code
    assert b"dry run: task t1" in shown
    assert state("t1") == ends


# Playbooks


def test_a_stuck_workstream_is_recovered(statecore: Statecore) -> None:
    with time_machine.travel(now() - timedelta(hours=1)):
        submit({"id": "t1", "timeout_sec": 7200})
        claim_as_w1()
    recover = ("playbook", "recover-workstream", "w1", "--reason", "stuck since the outage")

    dry = statecore(*recover, "--dry-run")
    assert "failing them" in dry.err
    assert "dry run: task t1: running → failed" in dry.out
    assert state("t1") == "running"

    assert "statecore retry tasks t1" in statecore(*recover).err
    assert state("t1") == "failed"
    assert Workstream.objects.get().state == "executing"


@pytest.mark.parametrize(("then", "ends", "tasks"), [("retry", "executing", 2), ("fail", "failed", 1)])
def test_a_recovered_workstream_is_never_in_a_state_that_no_operator_can_leave(
    statecore: Statecore, then: str, ends: str, tasks: int
) -> None:
    submit({"id": "t1"})
    claim_as_w1()
    recover = ("playbook", "recover-workstream", "w1", "--reason", "stuck since the outage", "--minutes", "0")

    assert f"{then}ing" in statecore(*recover, "--then", then, "--dry-run").err
    statecore(*recover, "--then", then)
    assert (Workstream.objects.get().state, Task.objects.count()) == (ends, tasks)
    if then == "retry":
        statecore("fire", "workstreams", "w1", "workstream_cancelled", "--reason", "not needed any more")


def test_the_playbook_skips_a_workstream_that_is_still_progressing(statecore: Statecore) -> None:
    submit({"id": "t1"})

    output = statecore("playbook", "recover-workstream", "w1", "--reason", "it looked stuck").err

    assert "not ended yet: t1; the workstream continues when they have ended" in output
    assert Workstream.objects.get().state == "ready"


def test_the_playbook_closes_a_breaker_only_if_the_tool_works(statecore: Statecore) -> None:
    world.open_breaker("tool")
    reset = ("playbook", "reset-breaker", "tool", "--reason", "it was repaired")

    assert "not a program on this host" in statecore(*reset, code=1).err
    assert "the tool still fails" in statecore(*reset, "--check", "/bin/false", code=1).err
    assert "dry run: circuit_breaker tool: OPEN → CLOSED" in statecore(*reset, "--dry-run", "--check", "/bin/true").out
    assert CircuitBreaker.objects.get().state == "OPEN"
    statecore(*reset, "--check", "/bin/true")
    assert CircuitBreaker.objects.get().state == "CLOSED"


def test_each_step_of_a_rollback_is_printed_once_without_earlier_attempts(statecore: Statecore, tmp_path: Path) -> None:
    work_tree = WorkTree(tmp_path / "tree")
    with override_settings(STATECORE_REPOSITORY=work_tree.path, STATECORE_HOME=tmp_path):
        entry = patch(diff_replacing("two", "zwei"))
        patches.run_due(wait=0)
        words = ("playbook", "rollback-patch", entry.pk, "--reason", "it broke the parser")
        assert "the default is" in statecore(*words, "--dry-run").err
        assert PatchLedger.objects.get().compensation_plan == {}
        for branch, code in (("another", 1), ("main", 0)):
            compensation.write_plan(entry.pk, make_revert_plan(reload(entry), branch), world.operator("ada"))
            before = steps_of(entry.pk).count()
            rolling = statecore.start(*words, stderr=subprocess.PIPE)
            until(lambda rolling=rolling: compensation.run_due() or rolling.poll() is not None, 30)
            output = rolling.communicate(timeout=30)[1].decode()
            assert rolling.returncode == code, output
            reported = [line.split(":")[0].strip() for line in output.splitlines() if line.startswith("   ")]
            done = list(steps_of(entry.pk).values_list("action", flat=True))[before:]
            assert [each for each in reported if each in done] == [each for each in done if each != "plan_approved"]
    assert work_tree.read() == HELLO
    assert output.splitlines()[-1].endswith(f"{entry.pk} is rolled back")


def make_revert_plan(entry: PatchLedger, branch: str) -> dict[str, Any]:
    action = {"action": "git_revert", "commit_sha": entry.commit_sha, "branch": branch}
    validation = {"required_gates": [], "verify_clean_state": True}
    return {"compensation_type": "git_revert", "actions": [action], "validation": validation}


def test_the_playbook_waits_for_the_last_step_of_a_rollback(statecore: Statecore, site: Site) -> None:
    """The worker changes the patch's state, cleans up, and then records the last step."""
    entry = world.touched(make_committed_patch(), commit_sha="1" * 40)
    rolling = statecore.start(
        "playbook", "rollback-patch", entry.pk, "--reason", "it broke the parser", stderr=subprocess.PIPE
    )
    until(lambda: compensation.find_due() or rolling.poll() is not None)
    world.touched(entry, revert_commit="2" * 40)
    world.fire(entry, "rollback_requested", actor=world.operator(), error="it broke the parser")
    process = count_polls(site, entry.pk)
    until(lambda: count_polls(site, entry.pk) > process + 2 or rolling.poll() is not None)
    record_step(entry.pk, Action.ROLLED_BACK, THE_SYSTEM)

    output = rolling.communicate(timeout=30)[1].decode()

    assert "   rolled_back: done" in output
    assert rolling.returncode == 0


def count_polls(site: Site, patch_id: str) -> int:
    return site.log.read_text().count(f"GET /api/v1/patches/{patch_id}/compensation/")


def test_only_a_committed_patch_is_rolled_back(statecore: Statecore) -> None:
    entry = world.patch(workstream=world.workstream())

    output = statecore("playbook", "rollback-patch", entry.pk, "--reason", "it broke the parser", code=3).err

    assert "only a committed patch can be rolled back" in output


def test_a_worker_is_drained(statecore: Statecore) -> None:
    submit({"id": "t1"})
    claim_as_w1()

    assert statecore("drain", "w1").out == "worker w1 is busy and gets no new task\n"
    assert Worker.objects.get().draining
