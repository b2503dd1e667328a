"""fire, retry, submit and watch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from statecore import transitions
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from tests.agent.process import claim_as_w1, state, submit, task
from tests.cli.process import Statecore
from tests.support import forked, world
from tests.support import sequencer as sequencers
from tests.support.sequencer import ROOT
from tests.support.waiting import until

PLAN = {"id": "r7", "phase": "PH-7", "workstreams": [{"id": "w7", "tasks": [{"id": "a"}, {"id": "b"}]}]}


def test_fire_sends_a_transition_with_its_fields(statecore: Statecore) -> None:
    submit({"id": "t1"})
    statecore("fire", "workers", "w1", "shutdown_requested", code=5)
    statecore("submit", "-", stdin="{}", code=6)
    transitions.create(Worker, id="w1", actor=world.AGENT)
    transitions.transition(Worker, "w1", "registration_completed", actor=world.AGENT)

    output = statecore("fire", "workers", "w1", "shutdown_requested", "--reason", "no longer needed").out

    assert output.startswith("worker w1: idle → shutdown (shutdown_requested)")
    assert Worker.objects.get().state == "shutdown"


def test_a_dry_run_of_fire_is_labelled_as_such(statecore: Statecore) -> None:
    worker = world.idle_worker()

    output = statecore("fire", "workers", worker.pk, "shutdown_requested", "--dry-run").out

    assert output.startswith(f"dry run: worker {worker.pk}: idle → shutdown")
    assert Worker.objects.get().state == "idle"
    assert "dry_run is not a field" in statecore("fire", "workers", worker.pk, "x", "dry_run=true", code=2).err


def test_a_refused_transition_prints_the_reason(statecore: Statecore) -> None:
    submit({"id": "t1"})

    output = statecore("fire", "tasks", "t1", "execution_completed", "exit_code=0", code=3).err

    assert output.startswith("statecore: invalid_transition: execution_completed is not open from queued")
    assert "known: scheduler_assigned, " in statecore("fire", "tasks", "t1", "nonsense", code=6).err


def test_a_stale_version_is_refused(statecore: Statecore) -> None:
    submit({"id": "t1"})

    assert (
        "stale_version"
        in statecore(
            "fail-task",
            "t1",
            "--expected-version",
            "1",
            "--reason",
            "it will not get done",
            "--category",
            "other",
            code=3,
        ).err
    )


def test_a_plan_is_read_from_a_file_or_standard_input(statecore: Statecore, tmp_path: Path) -> None:
    world.Phase.objects.create(id="PH-7")
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))

    assert statecore("submit", str(tmp_path / "plan.json"), "--start").out == "run r7: 2 tasks\n"
    assert Run.objects.get().state == "running"
    again = statecore("submit", "-", stdin=json.dumps(PLAN), code=3).err
    assert "duplicate_id" in again


def test_a_plan_submitted_twice_with_one_request_id_creates_one_run(statecore: Statecore) -> None:
    world.Phase.objects.create(id="PH-7")
    text = json.dumps({**PLAN, "id": None} | {"id": "r8"})

    first = statecore("submit", "-", "--request-id", "nightly", "--json", stdin=text).json
    second = statecore("submit", "-", "--request-id", "nightly", "--json", stdin=text).json

    assert first == second
    assert Run.objects.count() == 1


def test_an_invalid_plan_is_refused_with_the_cause(statecore: Statecore) -> None:
    tasks = [{"id": "a", "depends_on": ["b"]}, {"id": "b", "depends_on": ["a"]}]
    plan = {"id": "r9", "phase": "PH-7", "workstreams": [{"id": "w", "tasks": tasks}]}

    assert "cycle: a → b → a" in statecore("submit", "-", stdin=json.dumps(plan), code=6).err
    for wrong in ("{", '{"workstreams": [], "metadata": {"x": NaN}}', '{"priority": 1e999}', "[" * 100_000):
        assert "is not JSON" in statecore("submit", "-", stdin=wrong, code=6).err
    assert "is not a plan" in statecore("submit", "-", stdin="[]", code=6).err


def test_a_plan_of_the_wrong_shape_is_refused(statecore: Statecore) -> None:
    assert statecore("submit", "-", stdin='{"workstreams": [{"id": "w", "tasks": 5}]}', code=6).err


def test_a_failed_task_gets_a_successor(statecore: Statecore) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    transitions.override(Task, "t1", "failed", actor=world.operator(), reason=world.REASON, category="other")

    statecore("retry", "tasks", "t1", "--reason", "the disk was full")

    assert task("t1").successor.state == "queued"
    assert "is queued" not in statecore("retry", "tasks", "t2", code=3).out


def test_watch_follows_a_run_to_its_final_state(statecore: Statecore, tmp_path: Path) -> None:
    submit({"id": "t1"})
    claim_as_w1()
    words = [sys.executable, "-m", "statecore_client.cli", "watch", "runs", "r1", "--until", "succeeded", "--json"]
    with sequencers.running(tmp_path):
        watching = forked.Popen(words, cwd=ROOT, env=statecore.environ, stdout=subprocess.PIPE, text=True)
        # The watch may begin before or after the override; it must see the final state in both cases.
        transitions.override(Task, "t1", "completed", actor=world.operator(), reason=world.REASON, category="other")
        until(lambda: Run.objects.get().state == "succeeded")
        events, _ = watching.communicate(timeout=30)

    assert watching.returncode == 0
    assert all(json.loads(line)["event"]["to_state"] == "succeeded" for line in events.splitlines())


def test_watch_fails_if_the_run_ends_in_another_state(statecore: Statecore, tmp_path: Path) -> None:
    submit({"id": "t1", "is_critical": True}, is_critical=True)
    claim_as_w1()
    with sequencers.running(tmp_path):
        transitions.override(Task, "t1", "failed", actor=world.operator(), reason=world.REASON, category="other")
        output = statecore("watch", "runs", "r1", "--until", "succeeded", code=1).err

    assert output == "statecore: r1 is failed, a final state, and cannot become succeeded\n"
    assert state("t1") == "failed"


def test_bulk_transitions_rows_and_lists_the_refused(statecore: Statecore) -> None:
    for name in ("j1", "j2", "j3"):
        world.created("PipelineJob", id=name)
    shown = statecore("bulk", "pipeline-jobs", "analyze", "j1", "j2", "--dry-run")
    assert "2 of 2 would be changed" in shown.out
    assert "2 of 2 were changed" in statecore("bulk", "pipeline-jobs", "analyze", "j1", "j2").out
    again = statecore("bulk", "pipeline-jobs", "analyze", "j2", "j3", code=1)
    assert "1 of 2 were changed" in again.out
    assert "j2" in again.out
    statecore("bulk", "pipeline-jobs", "analyze", code=2)
    (report,) = statecore("--json", "bulk", "pipeline-jobs", "analyze", "-f", "id=j1", code=1).json
    assert (report["total"], report["refused"]) == (1, 1)


def test_watch_ends_on_a_run_that_waits_for_a_decision(statecore: Statecore) -> None:
    submit({"id": "t1", "max_retries": 0}, {"id": "t2", "depends_on": ["t1"]})
    claim_as_w1()
    transitions.transition(
        Task, "t1", "execution_failed", actor=world.AGENT, params={"attempt": 1, "error": "it broke"}
    )
    message = statecore("watch", "runs", "r1", code=9).err
    assert "task t1" in message
    assert message.rstrip().endswith("needs a decision")


def test_an_action_is_applied_to_many(statecore: Statecore) -> None:
    submit({"id": "t1"}, {"id": "t2"})

    output = statecore("bulk", "tasks", "cancel", "t1", "t2", "--reason", "called off", "--dry-run").out
    assert output == "2 of 2 would be changed\n"
    assert "only an operator" not in statecore("bulk", "tasks", "user_cancelled", "t1", "--reason", "called off").out
    output = statecore("bulk", "tasks", "cancel", "--filter", "run=r1", "--reason", "called off", code=1).out
    assert "t1" in output
    assert output.endswith("1 of 2 were changed\n")
    assert "is not an action of tasks" in statecore("bulk", "tasks", "waive", "t1", code=6).err
    statecore("stop-bulk", "nope", code=5)
