"""Processes killed in the middle of a run: nothing is lost and the run completes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import time_machine
from django.db import connections, transaction

from statecore import scheduling
from statecore.journal import Event
from statecore.kernel.clock import now
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.reactions import sweep
from statecore.scheduling import timers
from tests.project.test_supervisor import Site, named
from tests.support import forked, postgres
from tests.support.sequencer import database_url, lines, positions
from tests.support.waiting import has_lock_waiters, until
from tests.work.agents import Agent, states, submit, task, workstream

pytestmark = [pytest.mark.once_on("postgres"), pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0


# An agent


def work_forever(name: str) -> None:
    agent = Agent.registered(name)
    while True:
        agent.work()


@contextmanager
def running_agent(name: str) -> Iterator[Any]:
    connections.close_all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child does not use the test runner's threads
        process = multiprocessing.get_context("fork").Process(target=work_forever, args=(name,), daemon=True)
        process.start()
    try:
        yield process
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.join(PATIENCE)


def count_completed() -> int:
    return Task.objects.filter(state="completed").count()


@pytest.mark.django_db(transaction=True)
def test_killed_agents_lose_nothing() -> None:
    count = 120
    submit(workstream("a", *(task(f"t{n:03}", *([f"t{n - 1:03}"] if n % 5 else [])) for n in range(count))))
    for number in range(3):
        name = f"victim-{number}"
        Agent(name, max_concurrent_tasks=3)
        before = count_completed()
        with running_agent(name):
            until(lambda before=before: count_completed() >= before + 10, PATIENCE)
        assert count_completed() < count, "the agent finished before it was killed"
    with time_machine.travel(now(), tick=False) as clock:
        successor = Agent("heir", max_concurrent_tasks=2)
        for seconds in (130, 200, 100, 100):
            clock.shift(seconds)
            scheduling.record_heartbeat("heir", actor=successor.actor)
            timers.mark_unresponsive_workers()
            timers.end_lost_workers()
            timers.queue_retries()
            successor.work()
        assert set(states(Task).values()) == {"completed"}
        assert states(Run) == {"r": "succeeded"}
        reports = Event.objects.filter(trigger="execution_completed").values_list("entity_id", flat=True)
        assert len(reports) == len(set(reports)) == count
        assert set(Worker.objects.exclude(pk="heir").values_list("state", "current_load")) == {("shutdown", 0)}
        assert integrity.check_all() == []


# A process that cancels


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_the_sweep_re_checks_rows_that_a_killed_process_skipped(tmp_path: Path) -> None:
    """The process is killed between its commit and its re-check of locked rows."""
    submit(workstream("a", "a1", "a2"))
    with transaction.atomic():
        Task.objects.select_for_update(no_key=True).get(pk="a1")
        program = Program(database_url(), tmp_path, "cancel")
        until(lambda: Workstream.objects.get().state == "cancelled" and has_lock_waiters(), PATIENCE)
        program.stop()
    assert states(Task) == {"a1": "queued", "a2": "cancelled"}

    with time_machine.travel(now() + sweep.FRESH + timedelta(seconds=1)):
        sweep.reevaluate_waiting()

    assert states(Task) == {"a1": "cancelled", "a2": "cancelled"}
    assert integrity.check_all() == []


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_the_sweep_recounts_a_worker_that_a_killed_process_skipped(tmp_path: Path) -> None:
    submit(workstream("a", "a1"), workstream("b", "b1"))
    agent = Agent(affinity={"workstreams": ["a"]})
    agent.claim()
    with transaction.atomic():
        Worker.objects.select_for_update(no_key=True).get(pk=agent.name)
        program = Program(database_url(), tmp_path, "cancel")
        until(lambda: Task.objects.get(pk="a1").state == "cancelled" and has_lock_waiters(), PATIENCE)
        program.stop()
    assert (agent.row.state, agent.row.current_load) == ("busy", 1)
    expected = {"state": "busy", "commands": [{"cancel": "a1", "attempt": 1}]}
    assert scheduling.record_heartbeat(agent.name, actor=agent.actor) == expected
    assert scheduling.record_heartbeat(agent.name, actor=agent.actor, holds={("a1", 1)}) == expected

    sweep.reevaluate_waiting()

    assert (agent.row.state, agent.row.current_load) == ("idle", 0)
    assert integrity.check_all() == []


# The services


def kill(site: Site, supervisor: psutil.Process, name: str, word: str) -> None:
    """Send SIGKILL and wait until the supervisor has noticed."""
    named(supervisor, word).kill()
    until(lambda: f"{name} was killed by SIGKILL; restarting" in site.output(), PATIENCE)


def test_a_killed_broker_and_killed_workers_lose_nothing(tmp_path: Path, django_db_setup: None) -> None:
    """Every task waits for a gate that the executors run and the broker announces."""
    site = Site(tmp_path, migrated=True)
    site.variables |= {"STATECORE_GATE_COMMANDS": sys.executable}
    home, url = tmp_path / "home", site.variables["DATABASE_URL"]
    victims = {"worker": "--concurrency=4", "redis": "valkey-server", "executors": "--pool=threads"}
    supervisor = site.start()
    processes = supervisor.children(recursive=True)
    agent = None
    try:
        Program(url, home, "gated", str(len(victims) + 2)).ended()
        agent = Program(url, home, "agent", "w")
        for done, (name, word) in enumerate(victims.items(), 1):
            until(lambda done=done: len(agent.done()) >= done, PATIENCE)
            kill(site, supervisor, name, word)
        agent.ended()
        judged = json.loads(Program(url, home, "judge").ended()[-1])
        until(lambda: len(lines(home)) == judged["events"])
    finally:
        if agent is not None:
            agent.stop()
        supervisor.terminate()
        psutil.wait_procs([supervisor, *processes], timeout=30)
        for process in [supervisor, *processes]:
            if process.is_running():
                process.kill()
    assert (judged["run"], judged["findings"]) == ("succeeded", [])
    assert set(judged["reports"].values()) == {1}
    assert positions(lines(home)) == list(range(1, judged["events"] + 1))


# The database


class Program:
    """A subprocess of tests.work.program and its output."""

    def __init__(self, url: str, home: Path, *words: str) -> None:
        environment = {**os.environ, "DATABASE_URL": url, "STATECORE_HOME": str(home)}
        self.output = (home / f"{'-'.join(words)}.out").open("w+")
        self.process = forked.Popen(
            [sys.executable, "-m", "tests.work.program", *words], cwd=ROOT, env=environment, stdout=self.output,
            stderr=subprocess.STDOUT,
        )  # fmt: skip

    def lines(self) -> list[str]:
        self.output.seek(0)
        return self.output.read().splitlines()

    def done(self) -> list[str]:
        return [line.removeprefix("done ") for line in self.lines() if line.startswith("done ")]

    def ended(self) -> list[str]:
        try:
            assert self.process.wait(PATIENCE) == 0, "\n".join(self.lines()[-30:])
            return self.lines()
        finally:
            self.stop()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self.output.close()


@pytest.mark.postgres
def test_a_killed_and_restarted_database_loses_nothing(tmp_path: Path) -> None:
    count = 60
    with postgres.mortal() as server:
        Program(server.url, tmp_path, "plan", str(count)).ended()
        agents = [Program(server.url, tmp_path, "agent", f"w{number}") for number in range(2)]
        try:
            for wanted in (8, 25):
                until(lambda wanted=wanted: sum(len(agent.done()) for agent in agents) >= wanted, PATIENCE)
                server.kill()
                until(lambda: any("away" in agent.lines()[-1:] for agent in agents), PATIENCE)
                server.start()
            expected = [name for agent in agents for name in agent.done()]
            for agent in agents:
                assert agent.process.wait(PATIENCE) == 0, "\n".join(agent.lines()[-30:])
        finally:
            for agent in agents:
                agent.stop()
        (found,) = Program(server.url, tmp_path, "judge").ended()[-1:]
    judged = json.loads(found)
    assert judged["findings"] == []
    assert judged["run"] == "succeeded"
    assert set(judged["tasks"].values()) == {"completed"}
    assert set(expected) <= set(judged["reports"])
    assert set(judged["reports"].values()) == {1}
    assert judged["loads"] == [["idle", 0]] * 2
