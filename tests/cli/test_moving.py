"""fire, retry, submit and watch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from statecore import door
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from tests.agent.process import running, state, submit, task
from tests.cli.process import Statecore
from tests.support import sequencer as sequencers
from tests.support import world
from tests.support.sequencer import ROOT
from tests.support.waiting import until

PLAN = {"id": "r7", "phase": "PH-7", "workstreams": [{"id": "w7", "tasks": [{"id": "a"}, {"id": "b"}]}]}


def test_a_move_with_its_fields(statecore: Statecore) -> None:
    submit({"id": "t1"})
    statecore("fire", "workers", "w1", "shutdown_requested", code=5)
    statecore("submit", "-", stdin="{}", code=6)
    door.create(Worker, id="w1", actor=world.AGENT)
    door.transition(Worker, "w1", "registration_completed", actor=world.AGENT)

    said = statecore("fire", "workers", "w1", "shutdown_requested", "--reason", "no longer needed").out

    assert said.startswith("worker w1: idle → shutdown (shutdown_requested)")
    assert Worker.objects.get().state == "shutdown"


def test_a_move_that_is_only_tried_is_said_to_be(statecore: Statecore) -> None:
    worker = world.idle_worker()

    said = statecore("fire", "workers", worker.pk, "shutdown_requested", "--dry-run").out

    assert said.startswith(f"would: worker {worker.pk}: idle → shutdown")
    assert Worker.objects.get().state == "idle"
    assert "dry_run is not a field" in statecore("fire", "workers", worker.pk, "x", "dry_run=true", code=2).err


def test_a_refused_move_says_why_and_what_is_open(statecore: Statecore) -> None:
    submit({"id": "t1"})

    said = statecore("fire", "tasks", "t1", "execution_completed", "exit_code=0", code=3).err

    assert said.startswith("statecore: invalid_transition: execution_completed is not open from queued")


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


def test_a_plan_from_a_file_and_from_a_pipe(statecore: Statecore, tmp_path: Path) -> None:
    world.Phase.objects.create(id="PH-7")
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))

    assert statecore("submit", str(tmp_path / "plan.json"), "--start").out == "run r7: 2 tasks\n"
    assert Run.objects.get().state == "running"
    again = statecore("submit", "-", stdin=json.dumps(PLAN), code=3).err
    assert "duplicate_id" in again


def test_a_plan_submitted_twice_under_one_id_is_one_plan(statecore: Statecore) -> None:
    world.Phase.objects.create(id="PH-7")
    text = json.dumps({**PLAN, "id": None} | {"id": "r8"})

    first = statecore("submit", "-", "--request-id", "nightly", "--json", stdin=text).json
    second = statecore("submit", "-", "--request-id", "nightly", "--json", stdin=text).json

    assert first == second
    assert Run.objects.count() == 1


def test_what_is_wrong_with_a_plan_is_told_by_its_place(statecore: Statecore) -> None:
    tasks = [{"id": "a", "depends_on": ["b"]}, {"id": "b", "depends_on": ["a"]}]
    plan = {"id": "r9", "phase": "PH-7", "workstreams": [{"id": "w", "tasks": tasks}]}

    assert "cycle: a → b → a" in statecore("submit", "-", stdin=json.dumps(plan), code=6).err
    for wrong in ("{", '{"workstreams": [], "metadata": {"x": NaN}}', '{"priority": 1e999}', "[" * 100_000):
        assert "is not JSON" in statecore("submit", "-", stdin=wrong, code=6).err
    assert "is not a plan" in statecore("submit", "-", stdin="[]", code=6).err


def test_a_plan_of_the_wrong_shape_is_refused(statecore: Statecore) -> None:
    statecore("submit", "-", stdin='{"workstreams": [{"id": "w", "tasks": 5}]}', code=6)


def test_a_failed_task_gets_a_successor(statecore: Statecore) -> None:
    submit({"id": "t1"}, {"id": "t2"})
    door.override(Task, "t1", "failed", actor=world.operator(), reason=world.REASON, category="other")

    statecore("retry", "tasks", "t1", "--reason", "the disk was full")

    assert task("t1").successor.state == "queued"
    assert "is queued" not in statecore("retry", "tasks", "t2", code=3).out


def test_a_run_is_watched_to_its_end(statecore: Statecore, tmp_path: Path) -> None:
    submit({"id": "t1"})
    running()
    words = [sys.executable, "-m", "api.cli", "watch", "runs", "r1", "--until", "succeeded", "--json"]
    with sequencers.running(tmp_path):
        watching = subprocess.Popen(words, cwd=ROOT, env=statecore.environ, stdout=subprocess.PIPE, text=True)
        # It may look before or after: in either case it must see the end.
        door.override(Task, "t1", "completed", actor=world.operator(), reason=world.REASON, category="other")
        until(lambda: Run.objects.get().state == "succeeded")
        told, _ = watching.communicate(timeout=30)

    assert watching.returncode == 0
    assert all(json.loads(line)["event"]["to_state"] == "succeeded" for line in told.splitlines())


def test_a_run_that_ends_otherwise_is_not_what_was_hoped(statecore: Statecore, tmp_path: Path) -> None:
    submit({"id": "t1", "is_critical": True}, is_critical=True)
    running()
    with sequencers.running(tmp_path):
        door.override(Task, "t1", "failed", actor=world.operator(), reason=world.REASON, category="other")
        said = statecore("watch", "runs", "r1", "--until", "succeeded", code=1).err

    assert said == "statecore: r1 has ended in failed, not in succeeded\n"
    assert state("t1") == "failed"


def test_many_are_moved_and_who_was_refused_is_told(statecore: Statecore) -> None:
    for name in ("j1", "j2", "j3"):
        world.created("PipelineJob", id=name)
    shown = statecore("bulk", "pipeline-jobs", "analyze", "j1", "j2", "--dry-run")
    assert "2 of 2 would be moved" in shown.out
    assert "2 of 2 are moved" in statecore("bulk", "pipeline-jobs", "analyze", "j1", "j2").out
    again = statecore("bulk", "pipeline-jobs", "analyze", "j2", "j3", code=1)
    assert "1 of 2 are moved" in again.out
    assert "j2" in again.out
    statecore("bulk", "pipeline-jobs", "analyze", code=2)
    (told,) = statecore("--json", "bulk", "pipeline-jobs", "analyze", "-f", "id=j1", code=1).json
    assert (told["total"], told["refused"]) == (1, 1)
