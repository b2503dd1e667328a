"""The supervisor that scripts/up runs: real processes are started, crash and are stopped."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support import databases
from tests.support.site import ROOT
from tests.support.waiting import read_line, until

START = [sys.executable, "-m", "statecore.project.supervisor"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Site:
    """A supervisor with its home, database and port."""

    def __init__(self, directory: Path, *, migrated: bool = False) -> None:
        self.log = directory / "up.log"
        self.port = free_port()
        self.variables = {
            "STATECORE_HOME": str(directory / "home"),
            "DATABASE_URL": databases.create_database(directory, migrated=migrated),
            "PORT": str(self.port),
            "PYTHONPATH": str(ROOT),
            "PATH": os.environ["PATH"],
        }

    def start(self) -> psutil.Popen:
        with self.log.open("w") as log:
            started = psutil.Popen(START, env=self.variables, stdout=log, stderr=log, cwd="/")
        until(lambda: "ready: open" in self.output() or started.poll() is not None, 60)
        assert started.is_running(), self.output()
        return started

    def output(self) -> str:
        return self.log.read_text()

    def status(self, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def refusal(self, **variables: str) -> str:
        """Starts a second supervisor with other variables and returns the line with which it refuses."""
        ended = subprocess.run(START, env=self.variables | variables, capture_output=True, text=True, timeout=60)
        assert ended.returncode != 0
        assert ended.stdout == ""
        (sentence,) = ended.stderr.splitlines()
        return sentence


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def site(directory: Path) -> Site:
    return Site(directory)


@pytest.fixture
def running(site: Site) -> Iterator[psutil.Popen]:
    supervisor = site.start()
    descendants = supervisor.children(recursive=True)
    yield supervisor
    for process in [supervisor, *descendants]:
        if process.is_running():
            process.kill()
    supervisor.wait(10)


def are_gone(processes: list[psutil.Process]) -> bool:
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


def named(supervisor: psutil.Process, word: str) -> psutil.Process:
    return next(p for p in supervisor.children() if any(word in part for part in p.cmdline()))


def test_it_starts_serves_and_stops_every_process(site: Site, running: psutil.Popen) -> None:
    until(lambda: site.status("/readyz") == 200)
    processes = running.children(recursive=True)
    assert len(processes) >= 4

    running.terminate()

    assert running.wait(30) == 0
    assert are_gone(processes)
    assert site.output().rstrip().endswith("statecore: stopped.")


def test_the_first_operator_is_created_once(site: Site, tmp_path: Path) -> None:
    own = Site(tmp_path, migrated=True)
    own.variables["STATECORE_LOG_FORMAT"] = "json"
    for expected in (1, 0):
        supervisor = own.start()
        supervisor.send_signal(signal.SIGINT)
        assert supervisor.wait(30) == 0
        passwords = re.findall(r"first operator: operator, password: \S{16,}", own.output())
        assert len(passwords) == expected
        # Every line of every process, and Celery's warning about the user root.
        assert all(json.loads(line)["event"] for line in own.output().splitlines())


def test_a_killed_supervisor_leaves_no_process_behind(site: Site, running: psutil.Popen) -> None:
    processes = running.children(recursive=True)

    running.kill()

    until(lambda: are_gone(processes))


WORKER = """
import os, time
from celery.signals import worker_process_init
import statecore.project.celery
worker = os.getpid()
if os.fork() == 0:
    {first}
    {then}
    time.sleep(600)
os.wait()
"""
STARTS, TELLS = "worker_process_init.send(sender=None)", "print(os.getpid(), flush=True)"
IS_LATE = f"while os.getppid() == worker: time.sleep(0.01)\n    {STARTS}"


@pytest.mark.parametrize(("first", "then"), [(STARTS, TELLS), (TELLS, IS_LATE)], ids=["ready", "killed too early"])
def test_pool_processes_die_with_a_killed_worker(first: str, then: str) -> None:
    script = WORKER.format(first=first, then=then)
    worker = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    started = psutil.Process(int(read_line(worker.stdout)))

    worker.kill()

    assert worker.wait(10) == -signal.SIGKILL
    worker.stdout.close()
    until(lambda: are_gone([started]))


def test_a_crashed_process_is_restarted(site: Site, running: psutil.Popen) -> None:
    web = named(running, "uvicorn")

    web.kill()

    until(lambda: "web was killed by SIGKILL; restarting in 1 s." in site.output())
    until(lambda: site.status("/healthz") == 200)


def test_a_second_start_on_the_same_home_is_refused(site: Site, running: psutil.Popen) -> None:
    sentence = site.refusal(PORT=str(free_port()))

    assert "is already running on STATECORE_HOME" in sentence
    assert sentence.endswith(f"(process {running.pid}).")


def test_a_port_in_use_is_refused(site: Site, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = site.refusal(PORT=str(port), STATECORE_HOME=str(tmp_path))

    assert sentence == f"statecore: port {port} on 127.0.0.1 is in use; set PORT to a free one."


@pytest.mark.parametrize(
    ("variable", "value", "word"),
    [
        ("DATABASE_URL", "mysql://host/name", "DATABASE_URL"),
        ("DATABASE_URL", "postgres://ann@127.0.0.1:1/name", "cannot be reached"),
        ("DATABASE_URL", "sqlite:////nowhere/at/all.sqlite3", "cannot be reached"),
        ("REDIS_URL", "redis://127.0.0.1:1/0", "cannot be reached"),
        ("STATECORE_DEADLINES", "task.sleeping=5", "statecore.E009"),
    ],
)
def test_a_start_that_cannot_succeed_is_refused_in_one_sentence(
    site: Site, tmp_path: Path, variable: str, value: str, word: str
) -> None:
    sentence = site.refusal(STATECORE_HOME=str(tmp_path), **{variable: value})

    assert sentence.startswith("statecore: ")
    assert word in sentence
