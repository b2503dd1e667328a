"""A process under the supervisor."""

import sys
import time
from pathlib import Path

import psutil
import pytest

from statecore.operations import pulse
from statecore.project.managed_process import MAX_PAUSE, STABLE_AFTER, ManagedProcess
from statecore.project.pulses import Pulses
from tests.support.waiting import until

CRASH = [sys.executable, "-c", "raise SystemExit(3)"]
PULSES = [sys.executable, "-c", "from statecore.operations import pulse; pulse.start(); import signal; signal.pause()"]
WAIT = [sys.executable, "-c", "import signal; signal.pause()"]


def next_message(process: ManagedProcess) -> str:
    """Checks the process, without its pauses, until there is a message."""
    process.restart_at = 0.0
    messages: list[str] = []
    until(lambda: messages.append(str(ended)) or True if (ended := process.check()) else False)
    return messages[0]


def test_a_crash_is_reported_and_the_pauses_grow() -> None:
    process = ManagedProcess("web", CRASH)

    assert next_message(process) == "web exited with code 3; restarting in 1 s."
    assert next_message(process) == "web exited with code 3; restarting in 2 s."
    assert next_message(process) == "web exited with code 3; restarting in 4 s."


def test_it_does_not_restart_before_its_pause_ends() -> None:
    process = ManagedProcess("web", CRASH)
    next_message(process)

    assert process.check() is None
    assert process.process is None


def test_it_never_gives_up() -> None:
    process = ManagedProcess("web", CRASH, crashes=40)

    assert next_message(process) == f"web exited with code 3; restarting in {MAX_PAUSE} s."


def test_one_that_hangs_is_killed_and_started_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(pulse.NOTIFY_SOCKET, "")
    pulses = Pulses(tmp_path)
    process = ManagedProcess("web", PULSES)
    process.start()
    assert process.process is not None
    until(lambda: process.process.pid in set(pulses.read()))
    process.pulse_at = time.monotonic()
    assert process.check() is None

    process.pulse_at -= pulse.MISSED_AFTER + 1
    assert str(process.check()) == "web has hung for 30 s; restarting in 1 s."
    assert process.process is None
    pulses.socket.close()


def test_a_crash_after_a_long_run_counts_as_the_first() -> None:
    process = ManagedProcess("web", CRASH, crashes=4)
    process.start()
    process.started_at -= STABLE_AFTER

    assert next_message(process).endswith("restarting in 1 s.")


def test_the_signal_that_ended_it_is_named() -> None:
    process = ManagedProcess("web", WAIT)
    process.check()
    assert process.process is not None
    process.process.kill()

    assert next_message(process) == "web was killed by SIGKILL; restarting in 1 s."


def test_killing_it_kills_the_processes_it_started() -> None:
    nested = f"import subprocess, sys; subprocess.run({WAIT!r})"
    process = ManagedProcess("web", [sys.executable, "-c", nested])
    process.start()
    assert process.process is not None
    leader = psutil.Process(process.process.pid)
    until(leader.children)
    (grandchild,) = leader.children()

    process.kill()

    until(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)
