"""The executors' Celery tasks, with a real broker and a real worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import current_app
from django.conf import settings as django_settings
from redis import Redis

from statecore import tasks
from statecore.executors import gates
from statecore.project.environment import read
from statecore.project.supervisor import processes
from tests.executors.support import executing_workstream, gate, patch, python, reload
from tests.executors.test_command import have_ended
from tests.executors.test_kill import ROOT, environment  # noqa: F401 - a fixture
from tests.executors.work_tree import diff_adding
from tests.support import world
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def broker(redis_server: str) -> Iterator[Redis]:
    with Redis.from_url(redis_server) as redis:
        redis.flushall()
        yield redis
        redis.flushall()


@pytest.fixture
def worker(environment, broker, redis_server) -> Iterator[subprocess.Popen[bytes]]:  # noqa: F811
    """The executors, started with the supervisor's command."""
    environment["REDIS_URL"] = redis_server
    (command,) = (child.command for child in processes(read(environment)) if child.name == "executors")
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    yield process
    process.kill()
    process.wait(20)


def make_validating_task(*gates) -> None:
    task = world.running_task(gates=[each.pk for each in gates], workstream=executing_workstream())
    world.fire(task, "execution_completed", exit_code=0, attempt=1)


def test_due_gates_and_patches_are_dispatched_and_run(worker, work_tree) -> None:
    good, bad, entry = gate("print('fine')"), gate("import sys; sys.exit(2)"), patch(diff_adding("new.txt"))
    make_validating_task(good, bad)

    tasks.run_due_gates()
    tasks.run_due_patches()

    until(lambda: (reload(good).state, reload(bad).state) == ("PASSED", "FAILED"), timeout=60)
    until(lambda: reload(entry).state == "committed", timeout=60)
    assert work_tree.is_clean()


MEET = """
import os, pathlib, sys, time
place = pathlib.Path({place!r})
(place / f"{{os.path.basename(os.getcwd())}}-{{len(os.listdir())}}-{{sys.argv[1:]}}").touch()
deadline = time.monotonic() + 120
while len(list(place.iterdir())) < 4:
    assert time.monotonic() < deadline, "the others did not come"
    time.sleep(0.05)
"""


@pytest.fixture
def meeting(environment, tmp_path) -> Path:  # noqa: F811
    """A folder in which two gates and the tests of two patches meet: each ends only when all four have started."""
    place = tmp_path / "place"
    place.mkdir()
    environment["STATECORE_PATCH_TEST_COMMAND"] = python(MEET.format(place=str(place)))
    return place


def test_gates_and_patches_of_one_repository_are_tested_at_the_same_time(meeting, worker, work_tree) -> None:
    own = [gate(command=f"{python(MEET.format(place=str(meeting)))} {number}") for number in range(2)]
    entries = [patch(diff_adding(f"{number}.txt")) for number in range(2)]
    make_validating_task(*own)

    tasks.run_due_patches()
    tasks.run_due_gates()

    until(lambda: {reload(each).state for each in own} == {"PASSED"}, timeout=150)
    until(lambda: {reload(each).state for each in entries} == {"committed"}, timeout=60)
    assert len(list(meeting.iterdir())) == 4
    assert work_tree.log() == [*(f"Patch {each.patch_id}" for each in reversed(entries)), "The beginning"]


def test_a_stopped_worker_returns_its_gate_and_exits_soon(worker, tmp_path) -> None:
    trace = tmp_path / "trace"
    hung = gate(f"import os, time; open({str(trace)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    make_validating_task(hung)
    tasks.run_due_gates()
    until(lambda: trace.exists() and trace.read_text(), timeout=60)

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(30) == 0
    assert have_ended([int(trace.read_text())])
    assert (reload(hung).state, gates.find_due()) == ("RUNNING", [hung.pk])


def test_unconsumed_messages_do_not_accumulate(broker, commands) -> None:
    make_validating_task(gate(), gate())

    for _ in range(5):
        tasks.run_due_gates()

    assert broker.llen("gates") == 2


def test_a_lost_broker_loses_nothing(broker, commands) -> None:
    make_validating_task(gate())
    tasks.run_due_gates()

    broker.flushall()
    tasks.run_due_gates()

    assert broker.llen("gates") == 1


def test_nothing_is_dispatched_while_the_executors_are_off(broker, settings) -> None:
    settings.STATECORE_GATE_COMMANDS, settings.STATECORE_REPOSITORY = (), None
    make_validating_task(gate())
    patch(diff_adding("new.txt"))

    tasks.run_due_gates()
    tasks.run_due_patches()
    tasks.time_out_gates()

    assert broker.keys() == []


def test_the_supervisor_starts_executors_only_if_they_are_enabled() -> None:
    def names(**given: str) -> list[str]:
        return [child.name for child in processes(read({**os.environ, **given}))]

    assert "executors" not in names()
    assert "executors" in names(STATECORE_GATE_COMMANDS=sys.executable)


def test_every_sweep_is_scheduled() -> None:
    scheduled = {entry["task"] for entry in django_settings.CELERY_BEAT_SCHEDULE.values()}

    for sweep in (tasks.run_due_gates, tasks.time_out_gates, tasks.run_due_patches):
        assert sweep.name in scheduled
    assert current_app.conf.task_acks_late
