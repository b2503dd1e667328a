"""The verbs that force a state, and the playbooks."""

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
from django.contrib.auth.models import User
from django.test import override_settings

from statecore.executors import compensation, patches, steps
from statecore.journal import Event
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.machines.circuit_breaker import CircuitBreaker
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.records import token as tokens
from statecore.records.compensation_step import Action
from tests.agent.process import running, state, submit, task
from tests.cli.process import REASON, Statecore
from tests.executors.support import fresh, patch
from tests.executors.work_tree import HELLO, WorkTree, replacing
from tests.support import world
from tests.support.sequencer import ROOT
from tests.support.site import Site
from tests.support.waiting import until


@pytest.mark.parametrize(("verb", "ends"), [("complete-task", "completed"), ("fail-task", "failed")])
def test_a_running_task_is_forced_to_its_end(statecore: Statecore, verb: str, ends: str) -> None:
    submit({"id": "t1"})
    running()

    said = statecore(verb, "t1", *REASON).out

    assert said.startswith(f"task t1: running → {ends} (manual_override)")
    assert state("t1") == ends
    event = Event.objects.filter(entity_id="t1").latest("sequence").as_dict()
    assert (event["kind"], event["operator"], event["reason"]) == ("override", "ada", REASON[1])


def test_a_task_is_completed_only_if_its_output_is_there(statecore: Statecore, tmp_path: Path) -> None:
    submit({"id": "t1"})
    running()
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
    running()

    said = statecore("complete-task", "t1", *REASON, "--dry-run").out

    assert "would: task t1: running → completed" in said
    assert "→ would: task t2: blocked → pending" in said
    assert (state("t1"), state("t2")) == ("running", "blocked")


def test_a_live_task_is_reset_and_a_final_one_gets_a_successor(statecore: Statecore) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    running("t1")

    assert "running → pending" in statecore("reset-task", "t1", *REASON).out
    statecore("fail-task", "t1", *REASON)
    for dry_run in (("reset-task", "t1", *REASON), ("retry", "tasks", "t1")):
        assert statecore(*dry_run, "--dry-run").out == "would: a successor is queued, in place of t1\n"
    assert not hasattr(task("t1"), "successor")
    assert "in place of t1" in statecore("reset-task", "t1", *REASON).out
    assert task("t1").successor.retry_count == 0


def test_a_blocked_task_is_unblocked(statecore: Statecore) -> None:
    submit({"id": "t1", "required_capabilities": ["git"]}, {"id": "t2", "depends_on": ["t1"]})

    assert statecore("unblock-task", "t2", *REASON).out == "task t2: blocked → queued (manual_override)\n"
    assert state("t2") == "queued"
    running("t2")


def test_workstreams_are_validated_and_failed(statecore: Statecore) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    running("t1")

    assert "executing → validating" in statecore("validate-workstream", "w1", *REASON).out
    assert "validating → failed" in statecore("fail-workstream", "w1", *REASON).out


def test_a_breaker_is_reset(statecore: Statecore) -> None:
    world.open_breaker("pytest")

    assert "OPEN → CLOSED" in statecore("reset-breaker", "pytest", *REASON).out


def committed() -> PatchLedger:
    return world.forced(world.patch(workstream=world.workstream()), "committed")  # type: ignore[no-any-return]


def test_a_patch_is_not_rolled_back_without_an_approved_plan(statecore: Statecore) -> None:
    entry = committed()

    assert "there is none" in statecore("rollback-patch", entry.pk, *REASON, code=3).err
    assert PatchLedger.objects.get().state == "committed"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--reason", "short", "--category", "other"), "reason"),
        (("--reason", REASON[1], "--category", "x"), "category"),
    ],
)
def test_a_reason_and_a_category_are_asked_for(statecore: Statecore, words: tuple[str, ...], complaint: str) -> None:
    submit({"id": "t1"})

    assert complaint in statecore("fail-task", "t1", *words, code=6).err
    assert state("t1") == "queued"


@pytest.mark.parametrize(("answer", "code", "ends"), [("n", 1, "queued"), ("y", 0, "failed")])
def test_whoever_sits_at_a_terminal_is_shown_it_and_asked(
    statecore: Statecore, answer: str, code: int, ends: str
) -> None:
    submit({"id": "t1"})
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as terminal:
        asked = subprocess.Popen(
            [sys.executable, "-m", "api.cli", "fail-task", "t1", *REASON], cwd=ROOT, env=statecore.environ,
            stdin=theirs, stdout=subprocess.PIPE, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        terminal.write(f"{answer}\n".encode())
        shown, _ = asked.communicate(timeout=30)

    assert asked.returncode == code
    assert b"would: task t1" in shown
    assert state("t1") == ends


# Playbooks


def test_a_stuck_workstream_is_recovered(statecore: Statecore) -> None:
    with time_machine.travel(now() - timedelta(hours=1)):
        submit({"id": "t1", "timeout_sec": 7200})
        running()
    recover = ("playbook", "recover-workstream", "w1", "--reason", "stuck since the outage")

    dry = statecore(*recover, "--dry-run")
    assert "failing them" in dry.err
    assert "would: task t1: running → failed" in dry.out
    assert "would: workstream w1: executing → validating" in dry.out
    assert state("t1") == "running"

    statecore(*recover)
    assert state("t1") == "failed"
    assert Workstream.objects.get().state == "validating"


def test_a_workstream_that_goes_on_by_itself_is_left_alone(statecore: Statecore) -> None:
    submit({"id": "t1"})

    said = statecore("playbook", "recover-workstream", "w1", "--reason", "it looked stuck").err

    assert "not ended yet: t1; the workstream goes on by itself" in said
    assert Workstream.objects.get().state == "ready"


def test_a_breaker_is_closed_only_if_the_tool_works(statecore: Statecore) -> None:
    world.open_breaker("tool")
    reset = ("playbook", "reset-breaker", "tool", "--reason", "it was mended")

    assert "not a program here" in statecore(*reset, code=1).err
    assert "still unhealthy" in statecore(*reset, "--check", "/bin/false", code=1).err
    assert "would: circuit_breaker tool: OPEN → CLOSED" in statecore(*reset, "--dry-run", "--check", "/bin/true").out
    assert CircuitBreaker.objects.get().state == "OPEN"
    statecore(*reset, "--check", "/bin/true")
    assert CircuitBreaker.objects.get().state == "CLOSED"


def test_a_patch_is_rolled_back_by_its_plan(statecore: Statecore) -> None:
    entry = committed()
    words = ("playbook", "rollback-patch", entry.pk, "--reason", "it broke the parser")

    assert "this one would do" in statecore(*words, "--dry-run").err
    assert PatchLedger.objects.get().compensation_plan == {}
    rolling = statecore.started(*words)
    until(lambda: compensation.run_due() or rolling.poll() is not None, 30)

    assert rolling.wait(30) == 0
    assert PatchLedger.objects.get().state == "rolled_back"


def test_every_step_of_a_rollback_is_told_once_and_none_of_an_earlier_one(statecore: Statecore, tmp_path: Path) -> None:
    work_tree = WorkTree(tmp_path / "tree")
    with override_settings(STATECORE_REPOSITORY=work_tree.path, STATECORE_HOME=tmp_path):
        entry = patch(replacing("two", "zwei"))
        patches.run_due(wait=0)
        words = ("playbook", "rollback-patch", entry.pk, "--reason", "it broke the parser")
        for branch, code in (("another", 1), ("main", 0)):
            compensation.write_plan(entry.pk, reverting(fresh(entry), branch), world.operator("ada"))
            before = steps.of(entry.pk).count()
            rolling = statecore.started(*words, stderr=subprocess.PIPE)
            until(lambda rolling=rolling: compensation.run_due() or rolling.poll() is not None, 30)
            said = rolling.communicate(timeout=30)[1].decode()
            assert rolling.returncode == code, said
            told = [line.split(":")[0].strip() for line in said.splitlines() if line.startswith("   ")]
            done = list(steps.of(entry.pk).values_list("action", flat=True))[before:]
            assert [each for each in told if each in done] == [each for each in done if each != "plan_approved"]
    assert work_tree.read() == HELLO
    assert said.splitlines()[-1].endswith(f"{entry.pk} is rolled back")


def reverting(entry: PatchLedger, branch: str) -> dict[str, Any]:
    action = {"action": "git_revert", "commit_sha": entry.commit_sha, "branch": branch}
    validation = {"required_gates": [], "verify_clean_state": True}
    return {"compensation_type": "git_revert", "actions": [action], "validation": validation}


def test_the_last_step_of_a_rollback_is_waited_for(statecore: Statecore, site: Site) -> None:
    """The worker moves the patch, cleans up, and then writes down that it is done."""
    entry = committed()
    rolling = statecore.started(
        "playbook", "rollback-patch", entry.pk, "--reason", "it broke the parser", stderr=subprocess.PIPE
    )
    until(lambda: compensation.due() or rolling.poll() is not None)
    world.fire(entry, "rollback_requested", actor=world.operator(), error="it broke the parser")
    asked = looks(site, entry.pk)
    until(lambda: looks(site, entry.pk) > asked + 2 or rolling.poll() is not None)
    steps.note(entry.pk, Action.ROLLED_BACK, THE_SYSTEM)

    said = rolling.communicate(timeout=30)[1].decode()

    assert "   rolled_back: done" in said
    assert rolling.returncode == 0


def looks(site: Site, patch_id: str) -> int:
    return site.log.read_text().count(f"GET /api/v1/patches/{patch_id}/compensation/")


def test_only_a_committed_patch_is_rolled_back(statecore: Statecore) -> None:
    entry = world.patch(workstream=world.workstream())

    said = statecore("playbook", "rollback-patch", entry.pk, "--reason", "it broke the parser", code=3).err

    assert "only a committed patch is rolled back" in said


def test_a_worker_is_drained(statecore: Statecore) -> None:
    submit({"id": "t1"})
    running()

    assert statecore("drain", "w1").out == "worker w1 is busy and gets no new task\n"
    assert Worker.objects.get().draining


def test_the_second_person_shows_a_token_of_their_own(statecore: Statecore) -> None:
    submit({"id": "t1"})
    said = statecore("fail-task", "t1", *REASON, code=4, STATECORE_APPROVER_TOKEN="stc_00000000_x")
    assert "second person" in said.err
    other: Any = User.objects.create_superuser("bob")
    text = tokens.make("bobs", other, "override")[1]
    statecore("fail-task", "t1", *REASON, STATECORE_APPROVER_TOKEN=text)
    assert Event.objects.filter(entity_id="t1").latest("sequence").as_dict()["approver"] == "bob"
