"""A whole installation under its supervisor, with a second beat, and an agent that works through every fault."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
from django.db import connection
from redis import Redis

from statecore.journal import Event
from statecore.machines.task import Task
from statecore.operations import integrity
from statecore.project import commands, environment, redis_url
from statecore.records import ProcessReport
from statecore_client import Client, RetryPolicy
from tests.agent.process import AgentProcess
from tests.project.test_supervisor import Site, named
from tests.support import forked
from tests.support.sequencer import lines, positions
from tests.support.site import ROOT, token
from tests.support.waiting import until

VISIBLE = 30.0
PATIENT = RetryPolicy(first=0.1, longest=1.0, total=None)
TASKS = 3
PROCESSES = 6  # web, worker, beat, sequencer, webhooks, and the second beat
Fault = Callable[[], AbstractContextManager[None]]


class Installation:
    def __init__(self, site: Site, supervisor: psutil.Popen, client: Client) -> None:
        self.site, self.supervisor, self.client = site, supervisor, client
        self.home = Path(site.variables["STATECORE_HOME"])
        self.redis = Redis.from_url(redis_url.embedded(self.home), socket_timeout=5)
        self.runs: list[str] = []
        self.pause = threading.Event()

    def read_health(self) -> dict[str, Any]:
        self.pause.wait(0.25)  # a request takes the installation longer than the pause between two looks of `until`
        try:
            return dict(httpx.get(f"{self.client.url}readyz", timeout=20).json())
        except (httpx.TransportError, ValueError):
            return {}

    def await_shown(self, check: str, words: str = "") -> None:
        """Waits until /readyz names the failed check, with these words in its reason."""
        health: dict[str, Any] = {}

        def is_shown() -> bool:
            health.update(self.read_health())
            return check in health.get("failed", ()) and words in health.get("reasons", {}).get(check, "")

        try:
            until(is_shown, VISIBLE)
        except AssertionError:
            raise AssertionError(f"/readyz does not name {check} ({words}): {health}") from None

    @contextmanager
    def working(self, name: str) -> Iterator[None]:
        """Submits a run in the middle of the block, and expects it to end after the block."""
        workstream = {"id": f"{name}-w", "tasks": [{"id": f"{name}-{number}"} for number in range(TASKS)]}
        plan = {"id": name, "phase": "PH-1", "workstreams": [workstream], "start": True}
        with ThreadPoolExecutor(1) as pool:
            submitted = pool.submit(self.client.submit_plan, plan)
            yield
            submitted.result(60)
        self.runs.append(name)
        until(lambda: self.client.get("runs", name).state == "succeeded")

    def meet(self, name: str, fault: Fault, check: str, words: str = "") -> None:
        """Lets a fault last until it is visible, and expects the work to continue afterwards."""
        with self.working(name), fault():
            self.await_shown(check, words)

    @contextmanager
    def stopped(self, *words: str) -> Iterator[None]:
        """Processes that hang, as one does whose disk or host does not answer."""
        processes = [named(self.supervisor, word) for word in words]
        hanging = [each for process in processes for each in (process, *process.children(recursive=True))]
        for each in hanging:
            each.suspend()
        try:
            yield
        finally:
            for each in hanging:
                # The supervisor has killed those that hung for long.
                with suppress(psutil.NoSuchProcess):
                    each.resume()

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        return forked.run([sys.executable, "manage.py", *words], env=self.site.variables, cwd=ROOT, timeout=60)

    def expect_everything_done_once(self) -> None:
        """Call it with the connection of this process at the installation's database."""
        until(lambda: self.read_health().get("status") == "ok")
        connection.close()  # a fault has ended it
        reports = Counter(Event.objects.filter(trigger="execution_completed").values_list("entity_id", flat=True))
        expected = {f"{run}-{number}" for run in self.runs for number in range(TASKS)}
        assert set(Task.objects.filter(state="completed").values_list("pk", flat=True)) == expected == set(reports)
        assert set(reports.values()) == {1}
        until(lambda: len(lines(self.home)) == Event.objects.count())
        assert positions(lines(self.home)) == list(range(1, Event.objects.count() + 1))
        assert integrity.check_all() == []


@contextmanager
def running(site: Site, folder: Path) -> Iterator[Installation]:
    """Call it with the connection of this process at the site's database."""
    secret = token("operate")
    supervisor = site.start()
    processes = [supervisor, *supervisor.children(recursive=True)]
    with Client(f"http://127.0.0.1:{site.port}", secret, retry_policy=PATIENT) as client:
        client.create("phases", id="PH-1")
        agent = AgentProcess(folder, client.url, secret, "--", "true")
        beat = _start_beat(site, folder)
        try:
            until(_have_all_reported)
            yield Installation(site, supervisor, client)
        finally:
            agent.kill()
            beat.kill()
            beat.wait(20)
            _end(supervisor, processes)


def _have_all_reported() -> bool:
    """Whether each process is missed if it hangs: it has reported, and so after its namesake began, too."""
    reports = list(ProcessReport.objects.all())
    newest = max((each.started_at for each in reports), default=None)
    return len(reports) >= PROCESSES and all(newest is None or each.reported_at > newest for each in reports)


def _start_beat(site: Site, folder: Path) -> subprocess.Popen[bytes]:
    """Starts a second beat, as one does who enables it on two hosts."""
    (home := folder / "second").mkdir()
    broker = redis_url.embedded(Path(site.variables["STATECORE_HOME"]))
    environ = {**os.environ, **site.variables, "STATECORE_HOME": str(home), "REDIS_URL": broker}
    return forked.Popen(commands.beat(environment.read(environ)), env=environ, cwd=ROOT, stderr=subprocess.DEVNULL)


def _end(supervisor: psutil.Popen, processes: list[psutil.Process]) -> None:
    supervisor.send_signal(signal.SIGTERM)
    psutil.wait_procs([supervisor], timeout=30)
    for process in processes:
        if process.is_running():
            process.kill()
