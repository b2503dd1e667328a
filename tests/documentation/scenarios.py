"""Sets up the entities and processes that the commands of each page need, and checks the effects of the commands.

Everything is created through the transition service and by the same processes as in production.
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
from statecore.journal import ArchivedRange, Position, SignedCheckpoint, proofs
from statecore.journal.position import head
from statecore.kernel.clock import now
from statecore.machines.circuit_breaker import CircuitBreaker
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.operations import backup
from statecore.operations.incidents import sweep
from statecore.project import commands
from statecore.records import ExternalIdentity, Incident, Patch
from statecore.scheduling import breakers
from statecore_client.transparency.witness import create_witness_key
from tests.agent.process import state, submit, wait_for_state
from tests.documentation.blocks import blocks
from tests.documentation.workspace import Workspace
from tests.executors.work_tree import WorkTree, diff_replacing
from tests.retention.past import append_newer_events, deliver
from tests.support import sequencer as sequencers
from tests.support import site as sites
from tests.support import world
from tests.support.collector import collecting
from tests.support.site import ROOT
from tests.support.waiting import until

GATES_AND_PATCHES = "docs/how-to/run-gates-and-patches.md"
EXAMPLE = "https://statecore.example"
WATCHES = ("statecore watch", "statecore watch tasks")
Scenario = Callable[[Workspace, str], AbstractContextManager[None]]


def settings_on(page: str, workspace: Workspace) -> dict[str, str]:
    """Returns all settings on a page."""
    found = [block.settings for block in blocks(ROOT / page)]
    return {name: workspace.localize(value) for each in found for name, value in each.items()}


@contextmanager
def empty(workspace: Workspace, page: str) -> Iterator[None]:
    yield


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


# Agents


@contextmanager
def a_template_file(workspace: Workspace, page: str) -> Iterator[None]:
    """Writes the template that the page shows."""
    text = (ROOT / page).read_text().partition("```json\n")[2].partition("```")[0]
    (workspace.folder / "nightly.json").write_text(text)
    yield


@contextmanager
def work_for_an_agent(workspace: Workspace, page: str) -> Iterator[None]:
    """Creates a task and the programs that the pages call."""
    User.objects.create_superuser("operator")
    submit({"id": "t1", "required_capabilities": ["python"]})
    program(workspace.folder / "do-it.sh", "cat")
    program(workspace.folder / "run-task", "echo 14 passed")
    yield
    wait_for_state("t1", "completed")


@contextmanager
def simulated_agents(workspace: Workspace, page: str) -> Iterator[None]:
    yield
    until(lambda: Task.objects.filter(state="completed").exists())


# Recoveries


@contextmanager
def a_stuck_plan(workspace: Workspace, page: str) -> Iterator[None]:
    """Task t1 of workstream w1 has been running for an hour; t2 waits for it."""
    with time_machine.travel(now() - timedelta(hours=1)):
        submit({"id": "t1", "timeout_sec": 7200}, {"id": "t2", "depends_on": ["t1"]})
        scheduling.claim(world.idle_worker(id="build7-1f0c2a9e").pk, actor=world.AGENT)
    scheduling.record_heartbeat("build7-1f0c2a9e", actor=world.AGENT)
    yield


@contextmanager
def an_incident(workspace: Workspace, page: str) -> Iterator[None]:
    """Incident 1: task t1 has failed, t2 waits for it, and an account that can be assigned."""
    User.objects.create_user("operator")
    submit({"id": "t1"}, {"id": "t2", "depends_on": ["t1"]})
    scheduling.claim(world.idle_worker().pk, actor=world.AGENT)
    world.forced(Task.objects.get(pk="t1"), "failed")
    Incident.objects.create(pk=1, key="task t1", rule="", severity="warning", cause="", since=now(), opened_at=now())
    sweep()
    yield


def a_patch(workspace: Workspace) -> WorkTree:
    """Creates patch_7 and its repository."""
    shop = WorkTree(workspace.tmp_path / "shop")
    shop.write("test_hello.py", "def test_it_greets(): assert open('hello.txt').read()\n")
    shop.write(
        "pytest.ini", "[pytest]\naddopts = --disable-plugin-autoload\n"
    )  # the project's plugins take seconds to load
    shop.write(".gitignore", "__pycache__\n.pytest_cache\n")
    shop.commit("A test")
    text = Patch.objects.create(id="patch_7", title="A new parser", diff=diff_replacing("two", "zwei"))
    stream = world.forced(world.workstream(), "executing")
    world.created("PatchLedger", id="patch_7", patch=text, workstream=stream)
    return shop


@contextmanager
def a_committed_patch(workspace: Workspace, page: str) -> Iterator[None]:
    """The executors apply, test and commit patch_7 with the settings of the page about them.

    The patch is queued here, because the sweep would take five seconds.
    """
    shop = a_patch(workspace)
    workspace.replacements["/srv/shop"] = str(shop.path)
    write_repositories(workspace)
    with executors(workspace):
        with override_settings(STATECORE_REPOSITORY=shop.path):
            tasks.run_due_patches()
        until(lambda: PatchLedger.objects.get().state == "committed")
        yield
    assert shop.is_clean()


def write_repositories(workspace: Workspace) -> None:
    """Writes the file of further repositories that the page shows."""
    workspace.replacements["/srv/docs"] = str(WorkTree(workspace.tmp_path / "docs").path)
    file = workspace.tmp_path / "repositories.toml"
    workspace.replacements["/etc/statecore/repositories.toml"] = str(file)
    (shown,) = (block for block in blocks(ROOT / GATES_AND_PATCHES) if block.language == "toml")
    file.write_text(workspace.localize(shown.text))


@contextmanager
def executors(workspace: Workspace) -> Iterator[None]:
    """Runs executors and beat in one process, which starts faster than two."""
    environ = {**workspace.environ, **settings_on(GATES_AND_PATCHES, workspace)}
    command = [*commands.EXECUTORS, "--queues=celery,gates,patches", "--beat"]
    with (workspace.tmp_path / "executors.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


@contextmanager
def gates_and_a_patch(workspace: Workspace, page: str) -> Iterator[None]:
    given = {"tests": "pytest --version", "style": workspace.localize("/usr/bin/ruff --version")}
    gates = [{"id": name, "gate_type": "UNIT", "command": command} for name, command in given.items()]
    submit({"id": "t1", "entry_gates": list(given)}, gates=gates)
    with a_committed_patch(workspace, page):
        until(lambda: set(TestGate.objects.values_list("state", flat=True)) == {"PASSED"})
        yield


@contextmanager
def entities_to_recover(workspace: Workspace, page: str) -> Iterator[None]:
    world.open_breaker("pytest")
    with a_stuck_plan(workspace, page), a_committed_patch(workspace, page):
        yield
    assert (state("t1"), PatchLedger.objects.get().state) == ("failed", "rolled_back")
    assert CircuitBreaker.objects.get().state == "CLOSED"


# The command line


@contextmanager
def entities_for_the_command_line(workspace: Workspace, page: str) -> Iterator[None]:
    """Creates the entities that the page reads, changes and overrides; what it watches happens at the end."""
    with time_machine.travel(now() - timedelta(hours=1)):
        world.open_breaker("pytest")
    breakers.half_open_due()
    world.fire(world.created("AgentJob", id="j1"), "job_leased")
    world.fire(world.created("IngestionJob", id="i1"), "start")
    for run, task, worker in (("r6", "t3", "build9-5b7d3c1a"), ("r7", "t4", "build10-0e2f6b94")):
        scheduling.submit_plan(plan(run, task), actor=world.operator())
        scheduling.claim(world.idle_worker(id=worker).pk, actor=world.AGENT)
    (workspace.folder / "plan.json").write_text(json.dumps(plan("r8", "t5")))
    program(workspace.folder / "run-task", "true")
    with override_settings(STATECORE_REPOSITORY=a_patch(workspace).path, STATECORE_HOME=workspace.home):
        patches.run_due(wait=0)
    sign_journal(workspace)
    with a_stuck_plan(workspace, page), sequencers.running(workspace.home):
        yield
        world.task()
        until(lambda: all(workspace.terminals[each].unread() for each in WATCHES))
        world.fire(Task.objects.get(pk="t1"), "execution_completed", exit_code=0, attempt=1)
        until(lambda: workspace.terminals["statecore watch runs r1 --until succeeded"].shell.poll() is not None)


def plan(run: str, task: str) -> dict[str, Any]:
    workstream = {"id": f"{run}-w", "tasks": [{"id": task}]}
    return {"id": run, "phase": world.phase().pk, "workstreams": [workstream], "start": True}


# Backup and archive


@contextmanager
def a_journal(workspace: Workspace, page: str) -> Iterator[None]:
    world.running_task()
    with override_settings(STATECORE_HOME=workspace.home):
        deliver()
    yield


def sign_journal(workspace: Workspace) -> None:
    """Signs the journal, and puts the files that the pages name into the folder of the terminal."""
    with override_settings(STATECORE_HOME=workspace.home):
        deliver()
        event_id = Position.objects.latest("position").event_id
        proof, signed = proofs.prove_event(event_id), proofs.get_checkpoint()
    workspace.replacements |= {
        "EVENT": event_id,
        "evt_01M7JS8BYZQ2W8MVSSGRTD20QP": event_id,
        "VERIFIER_KEY": signed.verifier_key,
    }
    (workspace.folder / "proof.json").write_text(json.dumps(proof))
    for name in ("checkpoint", "transitions.jsonl"):
        (workspace.folder / name).write_bytes((workspace.home / name).read_bytes())
    workspace.replacements["/safe"] = str(workspace.folder)
    backup.export(workspace.folder / "exports")


@contextmanager
def a_signed_journal(workspace: Workspace, page: str) -> Iterator[None]:
    world.running_task()
    sign_journal(workspace)
    yield


@contextmanager
def a_witness(workspace: Workspace, page: str) -> Iterator[None]:
    """A site that accepts a witness. Its key exists already, because the site starts before the page creates one."""
    known = create_witness_key(workspace.tmp_path / "known", "witness.example/known")
    workspace.replacements |= {
        "/var/lib/witness --key": f"{workspace.tmp_path}/known --key",
        "/var/lib/witness": str(workspace.tmp_path / "new"),
        "NAME+ID+BASE64, NAME+ID+BASE64": str(known.verifier),
    }
    world.running_task()
    sign_journal(workspace)
    with a_site_with_the_settings(workspace, page) as site:
        workspace.environ["STATECORE_URL"] = site.url
        yield
    assert SignedCheckpoint.objects.latest("size").list_witnesses() == {known.name}


@contextmanager
def archivable_events(workspace: Workspace, page: str) -> Iterator[None]:
    """A task completed and its events were signed a hundred days ago; newer events exist."""
    workspace.replacements["/where/the/files/are"] = str(workspace.home / "backup" / "archived-events")
    with override_settings(STATECORE_HOME=workspace.home):
        with time_machine.travel(now() - timedelta(days=100)):
            done = world.running_task(id="task_01M7JS8BYZQ2W8MVSSGRTD20QP")
            world.fire(done, "execution_completed", exit_code=0, attempt=done.attempt)
            deliver()
            upto = head()
        append_newer_events()
    yield
    assert ArchivedRange.objects.get().last_position == upto


# Settings


@contextmanager
def a_site_with_the_settings(workspace: Workspace, page: str, **environ: str) -> Iterator[sites.Site]:
    given = settings_on(page, workspace)
    with sites.running(workspace.tmp_path, workspace.environ["REDIS_URL"], **given, **environ) as site:
        yield site


@contextmanager
def a_second_person_is_required(workspace: Workspace, page: str) -> Iterator[None]:
    run = world.forced(world.run(id="r1"), "running")
    command = f"statecore override runs {run.pk} failed --reason 'wrong result' --category other --yes"
    with a_site_with_the_settings(workspace, page) as site:
        output, code = workspace.terminal().run(f"STATECORE_URL={site.url} {command}", 30.0)
    assert (code, "another person decides" in output) == (8, True), output
    yield


@contextmanager
def an_account_with_a_password(workspace: Workspace, page: str) -> Iterator[None]:
    ann = User.objects.create_user("ann")
    yield
    assert ExternalIdentity.objects.get(subject="7c1d2f04").user == ann


@contextmanager
def a_read_only_console(workspace: Workspace, page: str) -> Iterator[None]:
    reader = Client()
    reader.force_login(User.objects.get(username="ada"))
    cookies = {name: each.value for name, each in reader.cookies.items()}
    with a_site_with_the_settings(workspace, page) as site:
        pages = [
            httpx.get(url, cookies=cookies, follow_redirects=True) for url in (site.url, workspace.localize(EXAMPLE))
        ]
    assert ["Read-only" in page.text for page in pages] == [True, False]
    yield


@contextmanager
def a_trace_collector(workspace: Workspace, page: str) -> Iterator[None]:
    with collecting() as (address, received):
        workspace.replacements["http://collector:4318"] = address
        with a_site_with_the_settings(workspace, page, OTEL_BSP_SCHEDULE_DELAY="100"):
            until(lambda: received)
        yield


SCENARIOS: dict[str, Scenario] = {
    "README.md": work_for_an_agent,
    "docs/how-to/back-up-and-restore.md": a_journal,
    "docs/how-to/require-a-second-person.md": a_second_person_is_required,
    "docs/how-to/force-a-transition.md": a_stuck_plan,
    "docs/how-to/handle-incidents.md": an_incident,
    "docs/how-to/recover-with-playbooks.md": entities_to_recover,
    "docs/how-to/archive-old-events.md": archivable_events,
    "docs/how-to/prove-an-event.md": a_signed_journal,
    "docs/how-to/run-a-witness.md": a_witness,
    "docs/how-to/run-the-demo.md": simulated_agents,
    GATES_AND_PATCHES: gates_and_a_patch,
    "docs/how-to/sign-in.md": an_account_with_a_password,
    "docs/how-to/read-only-console.md": a_read_only_console,
    "docs/how-to/monitor-with-prometheus.md": a_trace_collector,
    "docs/how-to/run-a-plan-on-a-schedule.md": a_template_file,
    "docs/how-to/write-an-agent.md": work_for_an_agent,
    "docs/reference/command-line.md": entities_for_the_command_line,
}
