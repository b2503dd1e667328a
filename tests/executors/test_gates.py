"""Gates: which are due, what becomes of them, and that each is run once."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine

from statecore import door
from statecore.executors import command, gates, holding
from statecore.executors.off import Off
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.machines.test_gate import TestGate
from tests.executors.support import executing, fresh, gate
from tests.support import world

pytestmark = pytest.mark.django_db


def ready() -> object:
    return world.fire(world.workstream(), "tasks_created")


def validating(**fields):
    task = world.running_task(**fields)
    return world.fire(task, "execution_completed", exit_code=0, attempt=1)


def test_a_gate_whose_command_ends_as_expected_passes(commands) -> None:
    passed = gate("import sys; print('fine'); sys.exit(4)", expected_exit_code=4)

    assert gates.run(passed.pk)

    passed = fresh(passed)
    assert (passed.state, passed.exit_code, passed.stdout) == ("PASSED", 4, "fine\n")
    assert passed.duration_sec > 0


def test_a_gate_whose_command_ends_otherwise_fails(commands) -> None:
    failed = gate("import sys; print('3 failed', file=sys.stderr); sys.exit(1)")

    gates.run(failed.pk)

    failed = fresh(failed)
    assert (failed.state, failed.exit_code, failed.stderr) == ("FAILED", 1, "3 failed\n")


def test_a_gate_that_takes_too_long_is_timed_out_by_its_runner(commands) -> None:
    slow = gate("import time; print('begun', flush=True); time.sleep(600)", timeout_sec=1)

    gates.run(slow.pk)

    slow = fresh(slow)
    assert (slow.state, slow.exit_code, slow.stdout) == ("FAILED", 124, "begun\n")
    assert slow.stderr == "timed out after 1 s"
    assert world.last_event(slow)["trigger"] == "timeout_exceeded"


@pytest.mark.parametrize(
    ("text", "expected", "code", "said"),
    [
        ("rm -rf /", 0, 126, "rm is not among the programs that STATECORE_GATE_COMMANDS allows"),
        ("rm -rf /", 126, 125, "rm is not among the programs that STATECORE_GATE_COMMANDS allows"),
        ("nowhere-to-be-found", 0, 127, "nowhere-to-be-found is allowed, but there is no such program here"),
        ("broken 'quote", 0, 126, "the command cannot be read: No closing quotation"),
    ],
)
def test_a_command_that_may_not_or_cannot_run_fails_its_gate(commands, text, expected, code, said) -> None:
    refused = world.gate(command=text, expected_exit_code=expected)

    gates.run(refused.pk)

    refused = fresh(refused)
    assert (refused.state, refused.exit_code, refused.stderr) == ("FAILED", code, said)


def test_while_commands_are_off_no_gate_is_due_and_none_is_run(settings) -> None:
    settings.STATECORE_GATE_COMMANDS = ()
    waiting = door.retry(TestGate, world.forced(gate(), "FAILED").pk, actor=THE_SYSTEM).entity

    assert gates.due() == []
    with pytest.raises(Off, match="commands are off"):
        gates.run(waiting.pk)
    assert fresh(waiting).state == "PENDING"


def test_a_gate_that_somebody_else_has_started_is_left_to_them(commands) -> None:
    taken = world.fire(gate(f"open({str(commands / 'trace')!r}, 'w')"), "gate_started")

    assert not gates.run(taken.pk)

    assert fresh(taken).state == "RUNNING"
    assert not (commands / "trace").exists()


def test_a_gate_that_was_forced_meanwhile_keeps_what_it_was_forced_to(commands, monkeypatch) -> None:
    running = gate()
    result = gates._result

    def forced_meanwhile(started, keep):
        found = result(started, keep)
        world.forced(started, "FAILED")
        return found

    monkeypatch.setattr(gates, "_result", forced_meanwhile)
    gates.run(running.pk)

    assert fresh(running).state == "FAILED"


def test_an_entry_gate_is_due_while_its_task_waits_in_a_workstream_that_may_start(commands) -> None:
    entry, later = gate(), gate()
    world.task(workstream=ready(), entry_gates=[entry.pk])
    world.task(workstream=world.workstream(), entry_gates=[later.pk])

    assert gates.due() == [entry.pk]


def test_an_exit_gate_is_due_once_its_task_is_validating(commands) -> None:
    early, exit_ = gate(), gate()
    world.queued_task(gates=[early.pk])
    validating(gates=[exit_.pk])

    assert gates.due() == [exit_.pk]


def test_an_exit_gate_waits_for_the_patch_it_is_to_see(commands, settings, tmp_path) -> None:
    exit_ = gate()
    patch = world.patch()
    validating(gates=[exit_.pk], patch=patch.pk, workstream=patch.workstream)

    assert gates.due() == [exit_.pk], "agents apply the patches: they know when"
    settings.STATECORE_REPOSITORY = tmp_path
    assert gates.due() == []
    world.forced(patch, "verified")
    assert gates.due() == [exit_.pk]


def test_a_gate_of_the_workstream_itself_is_due_when_that_is_validating(commands) -> None:
    workstream = world.workstream()
    own, of_a_task = gate(workstream=workstream), gate(workstream=workstream)
    world.task(workstream=workstream, gates=[of_a_task.pk])

    assert gates.due() == []
    world.forced(workstream, "validating")
    assert gates.due() == [own.pk]


def test_a_gate_waits_for_the_gates_it_depends_on(commands) -> None:
    first = gate()
    second = gate(depends_on=[first.pk])
    validating(gates=[first.pk, second.pk])

    assert gates.due() == [first.pk]
    gates.run(first.pk)
    assert gates.due() == [second.pk]


def test_what_a_gate_depends_on_is_due_before_it_though_no_task_names_it(commands) -> None:
    workstream = executing()
    lint = gate(workstream=workstream)
    types = gate(depends_on=[lint.pk])
    unit = gate(depends_on=[types.pk], workstream=workstream)
    early = gate(depends_on=[gate().pk])
    world.task(workstream=workstream, gates=[early.pk])
    validating(workstream=workstream, gates=[unit.pk])

    for each in (lint, types, unit):
        assert gates.due() == [each.pk]
        gates.run(each.pk)
    assert gates.due() == []


def test_a_gate_is_not_due_before_the_work_that_it_tests_because_another_depends_on_it(commands) -> None:
    workstream = executing()
    unit, of_another = gate(workstream=workstream), gate(workstream=executing())
    integration = gate(workstream=workstream, depends_on=[unit.pk, of_another.pk])
    still_running = world.task(workstream=workstream, gates=[unit.pk])
    validating(workstream=workstream, gates=[integration.pk])

    assert gates.due() == []
    world.forced(still_running, "validating")
    assert gates.due() == [unit.pk]


def test_a_gate_of_a_workstream_that_has_ended_is_not_due(commands) -> None:
    workstream = world.workstream()
    exit_ = gate(workstream=workstream)
    validating(workstream=workstream, gates=[exit_.pk])
    world.forced(workstream, "cancelled")

    assert gates.due() == []


def test_a_re_run_is_due_at_once_but_not_one_that_came_with_its_workstream(commands) -> None:
    alone = world.forced(gate(), "FAILED")
    workstream = world.workstream()
    along = world.forced(gate(workstream=workstream), "FAILED")
    world.forced(workstream, "failed")

    again = door.retry(TestGate, alone.pk, actor=THE_SYSTEM).entity
    door.retry(type(workstream), workstream.pk, actor=THE_SYSTEM)

    assert TestGate.objects.filter(retry_of=along.pk).exists()
    assert gates.due() == [again.pk]


def test_what_is_due_is_bounded_and_the_longest_waiting_come_first(commands) -> None:
    waiting = [gate().pk for _ in range(5)]
    for each in waiting:
        validating(gates=[each])

    assert gates.due(limit=3) == waiting[:3]


def test_a_running_gate_without_a_runner_is_timed_out_when_its_time_is_over_and_never_before(commands) -> None:
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

    orphan = fresh(orphan)
    assert (orphan.state, orphan.exit_code, orphan.stderr) == ("FAILED", 124, "timed out after 60 s")


def test_many_that_cannot_be_timed_out_hide_nobody(commands) -> None:
    broken, orphan = (world.fire(gate(timeout_sec=sec), "gate_started") for sec in (60, 61))
    TestGate.objects.filter(pk=broken.pk).update(started_at=now() + timedelta(days=9))  # it cannot end before it began
    with time_machine.travel(now() + timedelta(hours=1)):
        assert [gates.time_out_gates(limit=1) for _ in range(3)] == [0, 1, 0]

    assert fresh(orphan).state == "FAILED"


def hung_runner(**fields):
    """A gate that a runner of ours has started, and of which it has not been heard since."""
    hung = gate(**fields)
    held = holding.take(hung.pk)
    return held, time_machine.travel(held.runner_until + timedelta(seconds=1))


def test_a_runner_that_has_lost_its_gate_to_another_reports_nothing(commands) -> None:
    held, later = hung_runner()
    with later:
        assert holding.take(held.pk).attempt == held.attempt + 1
        assert holding.take(held.pk) is None, "one at a time"
        gates._report(held, command.Result(1))

    assert fresh(held).state == "RUNNING"


def test_a_gate_that_is_run_again_has_all_of_its_time(commands) -> None:
    held, _later = hung_runner(timeout_sec=60)
    with time_machine.travel(held.times_out_at + timedelta(hours=1), tick=False):
        again = holding.take(held.pk)

        assert again.times_out_at == now() + timedelta(seconds=60)


def test_a_runner_speaks_for_its_gate_as_long_as_it_runs(commands, monkeypatch) -> None:
    held, _later = hung_runner()
    spoken = threading.Event()
    monkeypatch.setattr(holding, "RENEWAL", 0.01)
    monkeypatch.setattr(holding, "_ours", lambda of: spoken.set() or TestGate.objects.none())

    with holding.held(held):
        assert spoken.wait(20)


def test_a_command_that_takes_every_runner_down_is_given_up(commands) -> None:
    held, later = hung_runner(timeout_sec=60)
    TestGate.objects.filter(pk=held.pk).update(attempt=holding.MOST_RUNS)
    with later:
        assert gates.due() == []
    with time_machine.travel(held.times_out_at + gates.RUNNERS_GRACE + timedelta(seconds=1)):
        assert gates.time_out_gates() == 1

    assert fresh(held).state == "FAILED"


def test_what_an_agent_has_started_is_left_to_the_agent(commands) -> None:
    theirs = world.fire(gate(timeout_sec=3600), "gate_started")
    with time_machine.travel(now() + timedelta(minutes=30)):
        assert gates.due() == []
        assert not gates.run(theirs.pk)


def test_a_gate_runs_in_its_folder(commands: Path) -> None:
    where = gate("import os; print(os.getcwd())")

    gates.run(where.pk)

    assert fresh(where).stdout.strip() == str(commands.resolve())
