"""A helper process that changes data during browser tests: reads commands as JSON lines and replies to each."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any


def prepare() -> None:
    from django.contrib.auth.models import User

    from tests.browser.site import PASSWORD

    for name in ("viewer", "operator", "supervisor"):
        person(name, name)
    User.objects.create_superuser("admin", password=PASSWORD)
    world()


def person(name: str, group: str = "supervisor", may: tuple[str, ...] = ()) -> None:
    """Creates a user in a group, or with some permissions by codename."""
    from django.contrib.auth.models import Group, Permission, User

    from tests.browser.site import PASSWORD

    made = User.objects.create_user(name, password=PASSWORD)
    if group:
        made.groups.add(Group.objects.get(name=group))
    made.user_permissions.set(Permission.objects.filter(codename__in=may))


def world() -> None:
    """Data for every page."""
    from statecore.accounts import service_accounts
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.records import Alert
    from statecore.records.alert import now

    service_accounts.create("nightly", owner="operator", purpose="nightly builds", roles=["operator"], actor=THE_SYSTEM)
    service_accounts.issue_token("nightly", "agent", actor=THE_SYSTEM)
    # Requires a capability that no agent has, so that simulated agents do not claim it.
    plan("show", 6, needs=("gpu",))
    force("task", "show-t5", "failed")
    age("task", "show-t1", 4000)
    Alert.objects.create(rule="by_hand", key="show", severity="critical", detail="something is late", opened_at=now())
    sweep()
    record_transitions()


def record_transitions() -> None:
    """Adds what the sequencer would have counted some minutes ago: charts do not show the current minute."""
    from datetime import timedelta

    from statecore.kernel.clock import now
    from statecore.records import LoadRollUp, TransitionRollUp
    from statecore.records.roll_up import Load, Resolution

    period = {"resolution": Resolution.MINUTE, "start": Resolution.MINUTE.truncate(now() - timedelta(minutes=10))}
    edge = {**period, "entity_type": "task", "from_state": "running", "to_state": "failed"}
    TransitionRollUp.objects.create(**edge, count=3, failures=3)
    for measure, total in ((Load.SLOTS, 4), (Load.BUSY, 3), (Load.QUEUED, 5)):
        LoadRollUp.objects.create(**period, measure=measure.value, subject="gpu", total=total, samples=1)
        LoadRollUp.objects.create(**period, measure=measure.value, subject="", total=total, samples=1)


def age(machine: str, entity_id: str, seconds: int) -> None:
    """Sets the entry into its state back; written directly, because the transition service cannot."""
    from datetime import timedelta

    from statecore.kernel import registry

    model = registry.flow(machine).model
    row = model.objects.get(pk=entity_id)
    model.objects.filter(pk=entity_id).update(state_entered_at=row.state_entered_at - timedelta(seconds=seconds))


def plan(run: str, tasks: int, needs: Sequence[str] = ()) -> None:
    from statecore import scheduling
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.records import Phase

    Phase.objects.get_or_create(id="PH-browser")
    listed = [
        {"id": f"{run}-t{n}", "depends_on": [f"{run}-t1"] if n == 2 else [], "required_capabilities": list(needs)}
        for n in range(1, tasks + 1)
    ]
    workstreams = [{"id": f"{run}-w", "tasks": listed}]
    wanted = {"id": run, "phase": "PH-browser", "start": True, "workstreams": workstreams}
    scheduling.submit_plan(wanted, actor=THE_SYSTEM)


def streams(run: str, workstreams: int, tasks: int) -> None:
    """Submits a run of workstreams, each after the one before; tasks of each depend on its first one."""
    from statecore import scheduling
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.records import Phase

    Phase.objects.get_or_create(id="PH-browser")
    listed = [
        {
            "id": f"{run}-w{number}",
            "depends_on": [f"{run}-w{number - 1}"] if number > 1 else [],
            "tasks": [
                {
                    "id": f"{run}-w{number}-t{task}",
                    "depends_on": [f"{run}-w{number}-t1"] if task > 1 else [],
                    "required_capabilities": ["gpu"],
                }
                for task in range(1, tasks + 1)
            ],
        }
        for number in range(1, workstreams + 1)
    ]
    wanted = {"id": run, "phase": "PH-browser", "start": True, "workstreams": listed}
    scheduling.submit_plan(wanted, actor=THE_SYSTEM)


def sweep() -> None:
    """Groups what is stuck into incidents, as a Celery task does every ten seconds."""
    from statecore.operations.incidents import sweep

    sweep()


def force(machine: str, entity_id: str, to_state: str, reason: str = "log shows that the job never started") -> None:
    from statecore.kernel import registry
    from tests.support import world as people

    flow = registry.flow(machine)
    people.forced(flow.model.objects.get(pk=entity_id), to_state, reason=reason)


def retry(machine: str, entity_id: str) -> str:
    from statecore import transitions
    from statecore.kernel import registry
    from statecore.kernel.actors import THE_SYSTEM

    entity = transitions.retry(registry.flow(machine).model, entity_id, actor=THE_SYSTEM).entity
    return str(entity.pk) if entity else ""


def create(machine: str, **fields: Any) -> str:
    from statecore import transitions
    from statecore.kernel import registry
    from statecore.kernel.actors import THE_SYSTEM

    entity = transitions.create(registry.flow(machine).model, actor=THE_SYSTEM, **fields).entity
    return str(entity.pk) if entity else ""


def committed_patch(entity_id: str, diff: str) -> str:
    """Creates a patch with this diff that is committed."""
    from statecore.records import Patch
    from tests.support import world

    entry = world.patch(id=entity_id, patch=Patch.objects.create(id=f"{entity_id}-diff", diff=diff))
    force("patch_ledger", entry.pk, "committed")
    return str(entry.pk)


def grow(run: str, task: str) -> None:
    """Adds a task to a running run."""
    from statecore import transitions
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.task import Task
    from statecore.machines.workstream import Workstream

    transitions.create(Task, actor=THE_SYSTEM, id=task, workstream=Workstream.objects.get(pk=f"{run}-w"))


def work(run: str, fraction: float, detail: str) -> str:
    """Starts a task of the run and reports progress; a repeated call only reports."""
    from statecore import scheduling
    from statecore.machines.task import Task
    from tests.support import world as people

    if not Task.objects.filter(run=run, state="running").exists():
        # Not by a claim, which may choose a task of another test.
        worker = people.idle_worker(capabilities=[run])
        people.fire(Task.objects.filter(run=run, state="queued")[0], "worker_started", worker=worker.pk)
    task = Task.objects.get(run=run, state="running")
    reported = {(task.pk, task.attempt): {"fraction": fraction, "detail": detail}}
    scheduling.record_heartbeat(task.worker_id, actor=people.AGENT, progress=reported)
    return str(task.pk)


def log(task: str, texts: Sequence[str], stream: str = "stdout") -> int:
    """Writes lines to the log of a running task, as its agent would."""
    from statecore.delivery import log_news
    from statecore.machines.task import Task
    from statecore.scheduling import log_writer
    from tests.support import world as people

    lines = [log_writer.NewLine(stream, text, None) for text in texts]
    attempt = Task.objects.get(pk=task).attempt
    for start in range(0, len(lines), log_writer.MAX_LINES):
        log_writer.append(task, attempt, lines[start : start + log_writer.MAX_LINES], actor=people.AGENT)
    log_news.announce(task)
    return len(lines)


def finish(task: str) -> None:
    from statecore.machines.task import Task
    from tests.support import world as people

    row = Task.objects.get(pk=task)
    people.fire(row, "execution_completed", actor=people.AGENT, attempt=row.attempt, exit_code=0)


def state(machine: str, entity_id: str) -> dict[str, Any]:
    from statecore.kernel import registry

    row = registry.flow(machine).model.objects.get(pk=entity_id)
    return {"state": row.state, "version": row.version}


def events(machine: str, entity_id: str) -> list[dict[str, Any]]:
    from statecore.kernel import registry
    from tests.support import world as people

    return people.events_of(registry.flow(machine).model.objects.get(pk=entity_id))


def board() -> dict[str, Any]:
    from statecore.read_models.board import get_stats

    return get_stats()


COMMANDS: dict[str, Callable[..., Any]] = {
    command.__name__: command
    for command in (
        prepare,
        person,
        plan,
        streams,
        committed_patch,
        grow,
        age,
        force,
        retry,
        create,
        work,
        log,
        finish,
        state,
        events,
        board,
        sweep,
    )
}


def main() -> None:
    import django

    django.setup()
    for line in sys.stdin:
        words = json.loads(line)
        answer = COMMANDS[words.pop("do")](**words)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
