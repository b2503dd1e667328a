"""For each page a world in which its commands make sense, and a look at what they did to it.

All of it is made through the door and the services, and by the processes that would make it outside the tests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import time_machine
from django.contrib.auth.models import User
from django.test import Client, override_settings

from statecore import scheduling, tasks
from statecore.executors import patches
from statecore.kernel.clock import now
from statecore.machines.circuit_breaker import CircuitBreaker
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.project import commands
from statecore.records import Patch, Retirement
from statecore.scheduling import breakers
from tests.agent.process import reaches, state, submit
from tests.documentation.blocks import blocks
from tests.documentation.desk import Desk
from tests.executors.work_tree import WorkTree, replacing
from tests.retention.past import later, numbered, sealed
from tests.support import sequencer as sequencers
from tests.support import site as sites
from tests.support import world
from tests.support.collector import collecting
from tests.support.site import ROOT
from tests.support.waiting import until

GATES_AND_PATCHES = "docs/how-to/run-gates-and-patches.md"
EXAMPLE = "https://statecore.example"
WATCHES = ("statecore watch", "statecore watch tasks")
World = Callable[[Desk, str], AbstractContextManager[None]]


def settings_of(page: str, desk: Desk) -> dict[str, str]:
    """All that a page sets."""
    found = [block.settings for block in blocks(ROOT / page)]
    return {name: desk.here(value) for each in found for name, value in each.items()}


@contextmanager
def nothing(desk: Desk, page: str) -> Iterator[None]:
    yield


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


# Agents


@contextmanager
def work_for_an_agent(desk: Desk, page: str) -> Iterator[None]:
    """A task, and the programs that the pages call."""
    User.objects.create_superuser("operator")
    submit({"id": "t1", "required_capabilities": ["python"]})
    program(desk.checkout / "do-it.sh", "cat")
    program(desk.checkout / "run-task", "echo 14 passed")
    yield
    reaches("t1", "completed")


@contextmanager
def a_crowd(desk: Desk, page: str) -> Iterator[None]:
    yield
    until(lambda: Task.objects.filter(state="completed").exists())


# Recoveries


@contextmanager
def a_plan_that_hangs(desk: Desk, page: str) -> Iterator[None]:
    """Task t1 of workstream w1 has been running for an hour, and t2 waits for it."""
    with time_machine.travel(now() - timedelta(hours=1)):
        submit({"id": "t1", "timeout_sec": 7200}, {"id": "t2", "depends_on": ["t1"]})
        scheduling.claim(world.idle_worker(id="build7-1f0c2a9e").pk, actor=world.AGENT)
    scheduling.beat("build7-1f0c2a9e", actor=world.AGENT)
    yield


def a_patch(desk: Desk) -> WorkTree:
    """patch_7, and the repository it is for."""
    shop = WorkTree(desk.tmp_path / "shop")
    shop.write("test_hello.py", "def test_it_greets(): assert open('hello.txt').read()\n")
    shop.write("pytest.ini", "[pytest]\naddopts = --disable-plugin-autoload\n")  # ours take seconds to load
    shop.write(".gitignore", "__pycache__\n.pytest_cache\n")
    shop.commit("A test")
    text = Patch.objects.create(id="patch_7", title="A new parser", diff=replacing("two", "zwei"))
    stream = world.forced(world.workstream(), "executing")
    world.created("PatchLedger", id="patch_7", patch=text, workstream=stream)
    return shop


@contextmanager
def a_committed_patch(desk: Desk, page: str) -> Iterator[None]:
    """Applied, tested and committed by the executors, with the settings of the page about them.

    It is handed out at once, as the executors would do it after five seconds.
    """
    shop = a_patch(desk)
    desk.places["/srv/shop"] = str(shop.path)
    with executors(desk):
        with override_settings(STATECORE_REPOSITORY=shop.path):
            tasks.run_due_patches()
        until(lambda: PatchLedger.objects.get().state == "committed")
        yield
    assert shop.is_clean()


@contextmanager
def executors(desk: Desk) -> Iterator[None]:
    """What runs gates and patches, and what hands them out every five seconds: in one process, as one starts sooner."""
    environ = {**desk.environ, **settings_of(GATES_AND_PATCHES, desk)}
    command = [*commands.EXECUTORS, "--queues=celery,gates,patches", "--beat"]
    with (desk.tmp_path / "executors.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


@contextmanager
def gates_and_a_patch(desk: Desk, page: str) -> Iterator[None]:
    given = {"tests": "pytest --version", "style": desk.here("/usr/bin/ruff --version")}
    gates = [{"id": name, "gate_type": "UNIT", "command": command} for name, command in given.items()]
    submit({"id": "t1", "entry_gates": list(given)}, gates=gates)
    with a_committed_patch(desk, page):
        until(lambda: set(TestGate.objects.values_list("state", flat=True)) == {"PASSED"})
        yield


@contextmanager
def all_that_needs_a_hand(desk: Desk, page: str) -> Iterator[None]:
    world.open_breaker("pytest")
    with a_plan_that_hangs(desk, page), a_committed_patch(desk, page):
        yield
    assert (state("t1"), PatchLedger.objects.get().state) == ("failed", "rolled_back")
    assert CircuitBreaker.objects.get().state == "CLOSED"


# The command line


@contextmanager
def something_of_everything(desk: Desk, page: str) -> Iterator[None]:
    """What the page looks at, moves and forces; what it watches happens in the end."""
    with time_machine.travel(now() - timedelta(hours=1)):
        world.open_breaker("pytest")
    breakers.cool_down()
    for run, task, worker in (("r6", "t3", "build9-5b7d3c1a"), ("r7", "t4", "build10-0e2f6b94")):
        scheduling.submit(plan(run, task), actor=world.operator())
        scheduling.claim(world.idle_worker(id=worker).pk, actor=world.AGENT)
    (desk.checkout / "plan.json").write_text(json.dumps(plan("r8", "t5")))
    program(desk.checkout / "run-task", "true")
    with override_settings(STATECORE_REPOSITORY=a_patch(desk).path, STATECORE_HOME=desk.home):
        patches.run_due(wait=0)
    with a_plan_that_hangs(desk, page), sequencers.running(desk.home):
        yield
        world.task()
        until(lambda: all(desk.terminals[each].unread() for each in WATCHES))
        world.fire(Task.objects.get(pk="t1"), "execution_completed", exit_code=0, attempt=1)
        until(lambda: desk.terminals["statecore watch runs r1 --until succeeded"].shell.poll() is not None)


def plan(run: str, task: str) -> dict[str, Any]:
    workstream = {"id": f"{run}-w", "tasks": [{"id": task}]}
    return {"id": run, "phase": world.phase().pk, "workstreams": [workstream], "start": True}


# A machine


@contextmanager
def a_folder_for_machines(desk: Desk, page: str) -> Iterator[None]:
    """The file of the page is one that passes the checks and gets its migration."""
    (block,) = blocks(ROOT / page)
    folder = desk.tmp_path / "machines"
    folder.mkdir()
    (folder / "turnstile.py").write_text(block.text)
    manage = f"STATECORE_TEST_MACHINES={folder} python -m tests.toy"
    assert "Create model Turnstile" in desk.run(f"{manage} makemigrations --dry-run")
    assert "turnstile" in desk.run(f"{manage} machines")
    yield


# Keeping


@contextmanager
def a_journal(desk: Desk, page: str) -> Iterator[None]:
    world.running_task()
    with override_settings(STATECORE_HOME=desk.home):
        numbered()
    yield


@contextmanager
def a_quarter_that_is_closed(desk: Desk, page: str) -> Iterator[None]:
    """A hundred days ago a task was done, and everything was sealed; then something else was."""
    desk.places["/where/the/files/are"] = str(desk.home / "backup" / "retired")
    with override_settings(STATECORE_HOME=desk.home):
        with time_machine.travel(now() - timedelta(days=100)):
            done = world.running_task(id="task_01M7JS8BYZQ2W8MVSSGRTD20QP")
            world.fire(done, "execution_completed", exit_code=0, attempt=done.attempt)
            numbered()
            upto = sealed(1_000)
        later()
    yield
    assert Retirement.objects.get().last_position == upto


# Settings


@contextmanager
def a_site_with_the_settings(desk: Desk, page: str, **environ: str) -> Iterator[sites.Site]:
    given = settings_of(page, desk)
    with sites.running(desk.tmp_path, desk.environ["REDIS_URL"], **given, **environ) as site:
        yield site


@contextmanager
def a_second_person_is_demanded(desk: Desk, page: str) -> Iterator[None]:
    run = world.forced(world.run(id="r1"), "running")
    words = f"statecore override runs {run.pk} failed --reason 'seen to be wrong' --category other --yes"
    with a_site_with_the_settings(desk, page) as site:
        said, code = desk.terminal().run(f"STATECORE_URL={site.url} {words}", 30.0)
    assert (code, "second" in said) == (4, True), said
    yield


@contextmanager
def a_console_only_shows(desk: Desk, page: str) -> Iterator[None]:
    reader = Client()
    reader.force_login(User.objects.get(username="ada"))
    cookies = {name: each.value for name, each in reader.cookies.items()}
    with a_site_with_the_settings(desk, page) as site:
        pages = [httpx.get(url, cookies=cookies, follow_redirects=True) for url in (site.url, desk.here(EXAMPLE))]
    assert ["Read-only" in page.text for page in pages] == [True, False]
    yield


@contextmanager
def a_collector_listens(desk: Desk, page: str) -> Iterator[None]:
    with collecting() as (address, heard):
        desk.places["http://collector:4318"] = address
        with a_site_with_the_settings(desk, page, OTEL_BSP_SCHEDULE_DELAY="100"):
            until(lambda: heard)
        yield


WORLDS: dict[str, World] = {
    "README.md": work_for_an_agent,
    "docs/how-to/add-a-machine.md": a_folder_for_machines,
    "docs/how-to/back-up.md": a_journal,
    "docs/how-to/demand-a-second-person.md": a_second_person_is_demanded,
    "docs/how-to/force-a-transition.md": a_plan_that_hangs,
    "docs/how-to/playbooks.md": all_that_needs_a_hand,
    "docs/how-to/retention.md": a_quarter_that_is_closed,
    "docs/how-to/run-a-demonstration.md": a_crowd,
    GATES_AND_PATCHES: gates_and_a_patch,
    "docs/how-to/show-only.md": a_console_only_shows,
    "docs/how-to/watch-from-outside.md": a_collector_listens,
    "docs/how-to/write-an-agent.md": work_for_an_agent,
    "docs/reference/command-line.md": something_of_everything,
}
