"""Gates: which are due, how they end, and that each runs once."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine

from statecore import transitions
from statecore.executors import command, gate_lease, gates, repository
from statecore.executors.errors import NotEnabled
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.machines.test_gate import TestGate
from tests.executors.support import executing_workstream, gate, reload
from tests.support import world

pytestmark = pytest.mark.django_db


def ready_workstream() -> object:
    return world.fire(world.workstream(), "tasks_created")


def validating_task(**fields):
    task = world.running_task(**fields)
    return world.fire(task, "execution_completed", exit_code=0, attempt=1)


def test_a_gate_passes_with_the_expected_exit_code(commands) -> None:
    passed = gate("import sys; print('fine'); sys.exit(4)", expected_exit_code=4)

    assert gates.run_gate(passed.pk)

    passed = reload(passed)
    assert (passed.state, passed.exit_code, passed.stdout) == ("PASSED", 4, "fine\n")
    assert passed.duration_sec > 0


def test_a_gate_fails_with_another_exit_code(commands) -> None:
    failed = gate("import sys; print('3 failed', file=sys.stderr); sys.exit(1)")

    gates.run_gate(failed.pk)

    failed = reload(failed)
    assert (failed.state, failed.exit_code, failed.stderr) == ("FAILED", 1, "3 failed\n")


def test_the_runner_times_out_a_slow_gate(commands) -> None:
    slow = gate("import time; print('begun', flush=True); time.sleep(600)", timeout_sec=1)

    gates.run_gate(slow.pk)

    slow = reload(slow)
    assert (slow.state, slow.exit_code, slow.stdout) == ("FAILED", 124, "begun\n")
    assert slow.stderr == "timed out after 1 s"
    assert world.last_event(slow)["trigger"] == "timeout_exceeded"


@pytest.mark.parametrize(
    ("text", "expected", "code", "reason"),
    [
        ("rm -rf /", 0, 126, "rm is not allowed by STATECORE_GATE_COMMANDS"),
        ("rm -rf /", 126, 125, "rm is not allowed by STATECORE_GATE_COMMANDS"),
        ("nowhere-to-be-found", 0, 127, "nowhere-to-be-found is allowed but was not found on this host"),
        ("broken 'quote", 0, 126, "the command cannot be parsed: No closing quotation"),
    ],
)
def test_a_disallowed_or_missing_command_fails_its_gate(commands, text, expected, code, reason) -> None:
    refused = world.gate(command=text, expected_exit_code=expected)

    gates.run_gate(refused.pk)

    refused = reload(refused)
    assert (refused.state, refused.exit_code, refused.stderr) == ("FAILED", code, reason)


def test_no_gate_is_due_or_run_while_commands_are_off(settings) -> None:
    settings.STATECORE_GATE_COMMANDS = ()
    waiting = transitions.retry(TestGate, world.forced(gate(), "FAILED").pk, actor=THE_SYSTEM).entity

    assert gates.find_due() == []
    with pytest.raises(NotEnabled, match="commands are disabled"):
        gates.run_gate(waiting.pk)
    assert reload(waiting).state == "PENDING"


def test_a_gate_started_by_another_runner_is_not_run(commands) -> None:
    taken = world.fire(gate(f"open({str(commands / 'trace')!r}, 'w')"), "gate_started")

    assert not gates.run_gate(taken.pk)

    assert reload(taken).state == "RUNNING"
    assert not (commands / "trace").exists()


def test_a_gate_forced_during_its_run_keeps_the_forced_state(commands, monkeypatch) -> None:
    running = gate()
    result = gates._run_command

    def run_and_force(started, source):
        found = result(started, source)
        world.forced(started, "FAILED")
        return found

    monkeypatch.setattr(gates, "_run_command", run_and_force)
    gates.run_gate(running.pk)

    assert reload(running).state == "FAILED"


def test_an_entry_gate_is_due_while_its_task_waits_in_a_ready_workstream(commands) -> None:
    entry, later = gate(), gate()
    world.task(workstream=ready_workstream(), entry_gates=[entry.pk])
    world.task(workstream=world.workstream(), entry_gates=[later.pk])

    assert gates.find_due() == [entry.pk]


def test_an_exit_gate_is_due_once_its_task_is_validating(commands) -> None:
    early, exit_ = gate(), gate()
    world.queued_task(gates=[early.pk])
    validating_task(gates=[exit_.pk])

    assert gates.find_due() == [exit_.pk]


def test_an_exit_gate_waits_for_the_patch_of_its_task(commands, settings, tmp_path) -> None:
    exit_ = gate()
    patch = world.patch()
    validating_task(gates=[exit_.pk], patch=patch.pk, workstream=patch.workstream)

    assert gates.find_due() == [exit_.pk], "without a repository agents apply the patches themselves"
    settings.STATECORE_REPOSITORY = tmp_path
    assert gates.find_due() == []
    world.forced(patch, "verified")
    assert gates.find_due() == [], "gates test the newest commit"
    world.forced(patch, "committed")
    assert gates.find_due() == [exit_.pk]


def test_a_workstream_gate_is_due_when_its_workstream_is_validating(commands) -> None:
    workstream = world.workstream()
    own, task_gate = gate(workstream=workstream), gate(workstream=workstream)
    world.task(workstream=workstream, gates=[task_gate.pk])

    assert gates.find_due() == []
    world.forced(workstream, "validating")
    assert gates.find_due() == [own.pk]


def test_a_gate_waits_for_the_gates_it_depends_on(commands) -> None:
    first = gate()
    second = gate(depends_on=[first.pk])
    validating_task(gates=[first.pk, second.pk])

    assert gates.find_due() == [first.pk]
    gates.run_gate(first.pk)
    assert gates.find_due() == [second.pk]


def test_dependencies_of_a_due_gate_are_due_first(commands) -> None:
    workstream = executing_workstream()
    lint = gate(workstream=workstream)
    types = gate(depends_on=[lint.pk])
    unit = gate(depends_on=[types.pk], workstream=workstream)
    early = gate(depends_on=[gate().pk])
    world.task(workstream=workstream, gates=[early.pk])
    validating_task(workstream=workstream, gates=[unit.pk])

    for each in (lint, types, unit):
        assert gates.find_due() == [each.pk]
        gates.run_gate(each.pk)
    assert gates.find_due() == []


def test_a_dependency_of_a_due_gate_waits_for_its_own_task(commands) -> None:
    workstream = executing_workstream()
    unit, of_another = gate(workstream=workstream), gate(workstream=executing_workstream())
    integration = gate(workstream=workstream, depends_on=[unit.pk, of_another.pk])
    still_running = world.task(workstream=workstream, gates=[unit.pk])
    validating_task(workstream=workstream, gates=[integration.pk])

    assert gates.find_due() == []
    world.forced(still_running, "validating")
    assert gates.find_due() == [unit.pk]


def test_a_gate_of_a_finished_workstream_is_not_due(commands) -> None:
    workstream = world.workstream()
    exit_ = gate(workstream=workstream)
    validating_task(workstream=workstream, gates=[exit_.pk])
    world.forced(workstream, "cancelled")

    assert gates.find_due() == []


def test_a_retried_gate_is_due_at_once_unless_its_workstream_was_retried(commands) -> None:
    alone = world.forced(gate(), "FAILED")
    workstream = world.workstream()
    along = world.forced(gate(workstream=workstream), "FAILED")
    world.forced(workstream, "failed")

    again = transitions.retry(TestGate, alone.pk, actor=THE_SYSTEM).entity
    transitions.retry(type(workstream), workstream.pk, actor=THE_SYSTEM)

    assert TestGate.objects.filter(retry_of=along.pk).exists()
    assert gates.find_due() == [again.pk]


def test_due_gates_are_limited_and_ordered_by_waiting_time(commands) -> None:
    waiting = [gate().pk for _ in range(5)]
    for each in waiting:
        validating_task(gates=[each])

    assert gates.find_due(limit=3) == waiting[:3]


def test_a_running_gate_without_a_runner_times_out_exactly_after_its_grace_period(commands) -> None:
    start = now()
    with time_machine.travel(start, tick=False):
        orphan = world.fire(gate(timeout_sec=60), "gate_started")
    with time_machine.travel(
        start + timedelta(seconds=60) + gates.RUNNERS_GRACE - timedelta(milliseconds=1), tick=False
    ):
        assert gates.time_out_gates() == 0
    with time_machine.travel(start + timedelta(seconds=60) + gates.RUNNERS_GRACE, tick=False):
        assert gates.time_out_gates() == 1
        assert gates.time_out_gates() == 0

    orphan = reload(orphan)
    assert (orphan.state, orphan.exit_code, orphan.stderr) == ("FAILED", 124, "timed out after 60 s")


def test_gates_that_cannot_be_timed_out_hide_no_other(commands) -> None:
    broken, orphan = (world.fire(gate(timeout_sec=sec), "gate_started") for sec in (60, 61))
    world.touched(broken, started_at=now() + timedelta(days=9))
    with time_machine.travel(now() + timedelta(hours=1)):
        assert [gates.time_out_gates(limit=1) for _ in range(3)] == [0, 1, 0]

    assert reload(orphan).state == "FAILED"


def hung_runner(**fields):
    """Start a gate with a runner that then hangs; return the gate and a time after its lease."""
    hung = gate(**fields)
    held = gate_lease.acquire(hung.pk)
    return held, time_machine.travel(held.runner_until + timedelta(seconds=1))


def test_a_runner_that_lost_its_gate_reports_nothing(commands) -> None:
    held, later = hung_runner()
    with later:
        assert gate_lease.acquire(held.pk).attempt == held.attempt + 1
        assert gate_lease.acquire(held.pk) is None, "only one runner at a time"
        gates._report(held, command.Result(1))

    assert reload(held).state == "RUNNING"


def test_a_gate_that_runs_again_gets_its_full_timeout(commands) -> None:
    held, _later = hung_runner(timeout_sec=60)
    with time_machine.travel(held.times_out_at + timedelta(hours=1), tick=False):
        again = gate_lease.acquire(held.pk)

        assert again.times_out_at == now() + timedelta(seconds=60)


def test_a_runner_renews_its_lease_while_the_gate_runs(commands, monkeypatch) -> None:
    held, _later = hung_runner()
    spoken = threading.Event()
    monkeypatch.setattr(gate_lease, "RENEWAL", 0.01)
    monkeypatch.setattr(gate_lease, "_leased_row", lambda of: spoken.set() or TestGate.objects.none())

    with gate_lease.renewing(held):
        assert spoken.wait(20)


def test_a_gate_that_kills_every_runner_is_given_up(commands) -> None:
    held, later = hung_runner(timeout_sec=60)
    TestGate.objects.filter(pk=held.pk).update(attempt=gate_lease.MAX_RUNS)
    with later:
        assert gates.find_due() == []
    with time_machine.travel(held.times_out_at + gates.RUNNERS_GRACE + timedelta(seconds=1)):
        assert gates.time_out_gates() == 1

    assert reload(held).state == "FAILED"


def test_a_gate_started_by_an_agent_is_not_run(commands) -> None:
    theirs = world.fire(gate(timeout_sec=3600), "gate_started")
    with time_machine.travel(now() + timedelta(minutes=30)):
        assert gates.find_due() == []
        assert not gates.run_gate(theirs.pk)


def test_a_gate_runs_in_a_copy_of_a_folder_without_commits(commands: Path) -> None:
    (commands / "notes.txt").write_text("read me")
    changes = gate("print(open('notes.txt').read()); open('notes.txt', 'w').write('changed')")

    gates.run_gate(changes.pk)

    assert reload(changes).stdout == "read me\n"
    assert (commands / "notes.txt").read_text() == "read me"


def test_a_gate_runs_in_a_checkout_of_the_newest_commit(commands: Path, work_tree, settings) -> None:
    (work_tree.path / "inner").mkdir()
    work_tree.write("inner/file.txt", "committed")
    newest = work_tree.commit("An inner folder")
    work_tree.write("inner/file.txt", "not committed")
    settings.STATECORE_GATE_FOLDER = work_tree.path / "inner"
    script = "import subprocess; print(open('file.txt').read(), subprocess.getoutput('git rev-parse HEAD'))"
    reads = gate(script)

    gates.run_gate(reads.pk)

    assert reload(reads).stdout == f"committed {newest}\n"


def test_a_gate_waits_while_a_patch_is_committed_but_not_while_it_is_tested(
    commands: Path, work_tree, settings, monkeypatch
) -> None:
    monkeypatch.setattr(repository, "COMMIT_TIMEOUT", 0.0)
    settings.STATECORE_GATE_FOLDER = work_tree.path
    waiting = gate()

    with repository.locked() as opened:
        with opened.committing():
            assert not gates.run_gate(waiting.pk)
        assert reload(waiting).state == "PENDING"
        assert gates.run_gate(waiting.pk)
