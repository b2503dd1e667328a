"""Killed runners: the next runner repeats the gate, and completes or repeats the patch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
import time_machine

from statecore.executors import checkouts, compensation, gates, patches, repository
from statecore.executors.rollback import steps_of
from statecore.operations import integrity
from tests.crash.conftest import url_of_the_test_database
from tests.executors.support import gate, needs_bubblewrap, patch, python, reload, states_of
from tests.executors.test_command import HANGS, have_ended
from tests.executors.test_compensation import make_revert_plan, write_and_approve
from tests.executors.test_sandbox import processes_with
from tests.executors.work_tree import HELLO, WorkTree, diff_adding, diff_replacing
from tests.races.contest import operator
from tests.support import forked
from tests.support.waiting import until

pytestmark = [pytest.mark.once_on("postgres"), pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).parents[2]
RUNNER = "import django, sys; django.setup(); from statecore.executors import {module}; {module}.{call}"
HANGS_ONCE = """
import os, pathlib, sys, time
trace = pathlib.Path({trace!r})
if not trace.exists():
    trace.with_suffix(".new").write_text(str(os.getpid()))
    trace.with_suffix(".new").rename(trace)
    time.sleep(600)
"""


@pytest.fixture
def environment(settings, work_tree: WorkTree, commands: Path) -> dict[str, str]:
    """The environment for a runner in another process, without a sandbox: the commands write files outside."""
    settings.STATECORE_SANDBOX = "off"
    return {
        **os.environ,
        "STATECORE_SANDBOX": "off",
        "DATABASE_URL": url_of_the_test_database(),
        "STATECORE_HOME": str(settings.STATECORE_HOME),
        "STATECORE_GATE_COMMANDS": sys.executable,
        "STATECORE_GATE_FOLDER": str(commands),
        "STATECORE_REPOSITORY": str(work_tree.path),
    }


def runner(environment: dict[str, str], module: str, call: str) -> subprocess.Popen[bytes]:
    script = RUNNER.format(module=module, call=call)
    return subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env=environment)


def kill(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait(20)


def test_the_next_runner_repeats_a_gate_after_a_kill(environment, tmp_path) -> None:
    trace = tmp_path / "trace"
    hung = gate(HANGS_ONCE.format(trace=str(trace)), timeout_sec=120)
    process = runner(environment, "gates", f"run_gate({hung.pk!r})")
    until(trace.exists)

    kill(process)

    until(lambda: have_ended([int(trace.read_text())]))
    hung = reload(hung)
    assert (hung.state, gates.time_out_gates()) == ("RUNNING", 0)
    assert not gates.run_gate(hung.pk), "the previous runner may still be alive"
    for late in (hung.runner_until, hung.times_out_at + gates.RUNNERS_GRACE + timedelta(hours=1)):
        with time_machine.travel(late + timedelta(seconds=1)):
            assert (gates.find_due(), gates.time_out_gates()) == ([hung.pk], 0)
    with time_machine.travel(hung.runner_until + timedelta(seconds=1)):
        assert gates.run_gate(hung.pk)
    assert states_of(hung) == ["PENDING", "RUNNING", "PASSED"], "the kill is not recorded as a failed gate"


def test_the_next_runner_completes_a_patch_after_a_kill_during_its_tests(
    environment, tmp_path, settings, work_tree
) -> None:
    trace = tmp_path / "trace"
    settings.STATECORE_PATCH_TEST_COMMAND = python(HANGS_ONCE.format(trace=str(trace)))
    environment["STATECORE_PATCH_TEST_COMMAND"] = settings.STATECORE_PATCH_TEST_COMMAND
    entry = patch(diff_replacing("two", "zwei") + diff_adding("new.txt"))
    process = runner(environment, "patches", "run_due(wait=0)")
    until(trace.exists)
    assert work_tree.is_clean(), "the patch is tested in a checkout"

    kill(process)

    assert patches.run_due(wait=20) == 1
    until(lambda: have_ended([int(trace.read_text())]))
    assert states_of(entry) == ["created", "validated", "queued", "applied", "verified", "committed"]
    assert (work_tree.is_clean(), len(work_tree.log())) == (True, 2)


@needs_bubblewrap
def test_a_killed_runner_leaves_neither_a_sandboxed_process_nor_a_checkout(environment, settings, work_tree) -> None:
    del environment["STATECORE_SANDBOX"]
    settings.STATECORE_SANDBOX = "auto"
    marker = "sandboxed-and-hanging"
    hangs = gate(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HANGS!r}, {marker!r}])")
    process = runner(environment, "gates", f"run_gate({hangs.pk!r})")
    until(lambda: processes_with(marker), timeout=60)
    assert len(list(settings.STATECORE_CHECKOUT_DIR.iterdir())) == 1

    kill(process)

    until(lambda: not processes_with(marker))
    # The guard of the command holds the lock until it has ended.
    until(lambda: checkouts.remove_stale() or not list(settings.STATECORE_CHECKOUT_DIR.iterdir()))


class PausingChildren:
    def __init__(self, environment: dict[str, str]) -> None:
        self.process = forked.Popen(
            [sys.executable, "-m", "tests.executors.pausing_child"], cwd=ROOT, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def runs_to_its_end(self, action: str, ledger: str, moment: int) -> bool:
        """Run a child and kill it where it pauses; return whether it finished without pausing."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{action} {ledger} {moment}\n")
        self.process.stdin.flush()
        messages = {}
        while "gone" not in messages:
            word, _, rest = self.process.stdout.readline().strip().partition(" ")
            messages[word] = rest
            if "paused" in messages and "pid" in messages and "killed" not in messages:
                os.kill(int(messages["pid"]), signal.SIGKILL)
                messages["killed"] = ""
        assert messages["gone"] == ("-9" if "killed" in messages else "0")
        return "done" in messages


@pytest.fixture
def children(environment) -> Iterator[PausingChildren]:
    opened = PausingChildren(environment)
    yield opened
    with opened.process as process:
        process.stdin.close()
        process.wait(20)


def commits_of(work_tree: WorkTree, trailer: str, ledger: str) -> int:
    return work_tree.git("log", f"--format=%(trailers:key={trailer},valueonly)").split().count(ledger)


def test_a_patch_killed_at_any_moment_is_committed_once_by_the_next_runner(children, work_tree) -> None:
    for moment in count(1):
        entry = patch(diff_adding(f"{moment}.txt"))
        if children.runs_to_its_end("patches", "-", moment):
            break
        patches.run_due(wait=20)
        assert states_of(entry) == ["created", "validated", "queued", "applied", "verified", "committed"]
        assert commits_of(work_tree, "Statecore-Patch", entry.pk) == 1
        assert work_tree.is_clean()

    assert moment > 15, "too few moments to kill at"
    assert len(work_tree.log()) == moment + 1
    assert integrity.check_all() == []


def test_a_rollback_killed_at_any_moment_is_done_or_can_be_repeated(children, work_tree) -> None:
    entry = patch(diff_replacing("two", "zwei"))
    assert patches.run_due(wait=20) == 1
    entry = write_and_approve(reload(entry), None)
    for moment in count(1):
        if children.runs_to_its_end("rollback", entry.pk, moment):
            break
        with repository.locked(wait=20):
            made = commits_of(work_tree, "Statecore-Rollback", entry.pk)
        state = reload(entry).state
        assert made in ((1,) if state == "rolled_back" else (0, 1))
        if state == "rolled_back":
            entry = patch(diff_adding(f"{moment}.txt"))
            assert patches.run_due(wait=20) == 1
            entry = write_and_approve(reload(entry), make_revert_plan(reload(entry)))

    assert moment > 15, "too few moments to kill at"
    for each in type(entry).objects.all():
        assert each.state == "rolled_back"
        assert commits_of(work_tree, "Statecore-Rollback", each.pk) == 1
    assert (work_tree.read(), work_tree.git("ls-files")) == (HELLO, "hello.txt")
    assert work_tree.is_clean()
    assert steps_of(entry.pk).filter(action="rolled_back").count() == 1


def test_a_requested_rollback_survives_a_killed_worker(children, work_tree, monkeypatch) -> None:
    entry = patch(diff_replacing("two", "zwei"))
    patches.run_due(wait=20)
    entry = write_and_approve(reload(entry))
    compensation.request(entry.pk, operator("system"), "killed and tried again")
    children.runs_to_its_end("rollback", entry.pk, 12)

    monkeypatch.setattr(compensation, "_requester", lambda asked: operator("cleo"))

    assert compensation.run_due() == 1
    assert (reload(entry).state, work_tree.is_clean()) == ("rolled_back", True)
