"""kill -9 of a runner: a gate is run again by the next, a patch is committed and recorded or not applied."""

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

from statecore import integrity
from statecore.executors import compensation, gates, patches, repository, steps
from tests.crash.conftest import url_of_the_test_database
from tests.executors.support import fresh, gate, patch, path_of, python
from tests.executors.test_command import all_gone
from tests.executors.test_compensation import approved, reverting
from tests.executors.work_tree import HELLO, WorkTree, adding, replacing
from tests.races.contest import operator
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

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
    """What a runner of its own needs to do the same as we would."""
    return {
        **os.environ,
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


def test_a_gate_whose_runner_was_killed_is_run_again_by_the_next(environment, tmp_path) -> None:
    trace = tmp_path / "trace"
    hung = gate(HANGS_ONCE.format(trace=str(trace)), timeout_sec=120)
    process = runner(environment, "gates", f"run({hung.pk!r})")
    until(trace.exists)

    kill(process)

    until(lambda: all_gone([int(trace.read_text())]))
    hung = fresh(hung)
    assert (hung.state, gates.time_out_gates()) == ("RUNNING", 0)
    assert not gates.run(hung.pk), "the one before may still live"
    for late in (hung.runner_until, hung.times_out_at + gates.RUNNERS_GRACE + timedelta(hours=1)):
        with time_machine.travel(late + timedelta(seconds=1)):
            assert (gates.due(), gates.time_out_gates()) == ([hung.pk], 0)
    with time_machine.travel(hung.runner_until + timedelta(seconds=1)):
        assert gates.run(hung.pk)
    assert path_of(hung) == ["PENDING", "RUNNING", "PASSED"], "no failure of the tests it was to run"


def test_a_runner_killed_while_it_tests_leaves_the_patch_to_the_next(
    environment, tmp_path, settings, work_tree
) -> None:
    trace = tmp_path / "trace"
    settings.STATECORE_PATCH_TEST_COMMAND = python(HANGS_ONCE.format(trace=str(trace)))
    environment["STATECORE_PATCH_TEST_COMMAND"] = settings.STATECORE_PATCH_TEST_COMMAND
    entry = patch(replacing("two", "zwei") + adding("new.txt"))
    process = runner(environment, "patches", "run_due(wait=0)")
    until(trace.exists)
    assert not work_tree.is_clean()

    kill(process)

    # The lock goes with the last process that may touch the work tree, not with the runner.
    assert patches.run_due(wait=20) == 1
    assert all_gone([int(trace.read_text())])
    assert path_of(entry) == ["created", "validated", "queued", "applied", "verified", "committed"]
    assert (work_tree.is_clean(), len(work_tree.log())) == (True, 2)


class Nursery:
    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.executors.nursery"], cwd=ROOT, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def plays_to_its_end(self, deed: str, ledger: str, moment: int) -> bool:
        """Let a victim live; whether there was no such moment. One that stands is killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{deed} {ledger} {moment}\n")
        self.process.stdin.flush()
        heard = {}
        while "gone" not in heard:
            word, _, rest = self.process.stdout.readline().strip().partition(" ")
            heard[word] = rest
            if "stands" in heard and "pid" in heard and "killed" not in heard:
                os.kill(int(heard["pid"]), signal.SIGKILL)
                heard["killed"] = ""
        assert heard["gone"] == ("-9" if "killed" in heard else "0")
        return "done" in heard


@pytest.fixture
def nursery(environment) -> Iterator[Nursery]:
    opened = Nursery(environment)
    yield opened
    with opened.process as process:
        process.stdin.close()
        process.wait(20)


def commits_of(work_tree: WorkTree, trailer: str, ledger: str) -> int:
    return work_tree.git("log", f"--format=%(trailers:key={trailer},valueonly)").split().count(ledger)


def test_killed_at_any_moment_of_a_patch_it_is_committed_once_by_whoever_comes_next(nursery, work_tree) -> None:
    for moment in count(1):
        entry = patch(adding(f"{moment}.txt"))
        if nursery.plays_to_its_end("patches", "-", moment):
            break
        patches.run_due(wait=20)
        assert path_of(entry) == ["created", "validated", "queued", "applied", "verified", "committed"]
        assert commits_of(work_tree, "Statecore-Patch", entry.pk) == 1
        assert work_tree.is_clean()

    assert moment > 15, "there were moments to be killed at"
    assert len(work_tree.log()) == moment + 1
    assert integrity.check_all() == []


def test_killed_at_any_moment_of_a_rollback_it_is_done_or_can_be_done_again(nursery, work_tree) -> None:
    entry = patch(replacing("two", "zwei"))
    assert patches.run_due(wait=20) == 1
    entry = approved(fresh(entry), None)
    for moment in count(1):
        if nursery.plays_to_its_end("rollback", entry.pk, moment):
            break
        with repository.opened(wait=20):
            made = commits_of(work_tree, "Statecore-Rollback", entry.pk)
        state = fresh(entry).state
        assert made in ((1,) if state == "rolled_back" else (0, 1))
        if state == "rolled_back":
            entry = patch(adding(f"{moment}.txt"))
            assert patches.run_due(wait=20) == 1
            entry = approved(fresh(entry), reverting(fresh(entry)))

    assert moment > 15, "there were moments to be killed at"
    for each in type(entry).objects.all():
        assert each.state == "rolled_back"
        assert commits_of(work_tree, "Statecore-Rollback", each.pk) == 1
    assert (work_tree.read(), work_tree.git("ls-files")) == (HELLO, "hello.txt")
    assert work_tree.is_clean()
    assert steps.of(entry.pk).filter(action="rolled_back").count() == 1


def test_a_rollback_that_was_asked_for_survives_the_one_who_was_at_it(nursery, work_tree, monkeypatch) -> None:
    entry = patch(replacing("two", "zwei"))
    patches.run_due(wait=20)
    entry = approved(fresh(entry))
    compensation.request(entry.pk, operator("system"), "killed and tried again")
    nursery.plays_to_its_end("rollback", entry.pk, 12)

    monkeypatch.setattr(compensation, "_who", lambda asked: operator("cleo"))

    assert compensation.run_due() == 1
    assert (fresh(entry).state, work_tree.is_clean()) == ("rolled_back", True)
