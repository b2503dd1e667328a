"""Subprocesses that work on a separate database.

python -m tests.work.program plan TASKS     creates the tables and submits a plan
python -m tests.work.program agent NAME     works until the run has ended and prints `done TASK` for each confirmed
                                            task; survives a restart of the database
python -m tests.work.program gated TASKS    submits a plan of tasks one after the other, each with an exit gate
python -m tests.work.program cancel         cancels the workstream and re-checks rows that were locked
python -m tests.work.program judge          prints the resulting state as JSON
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from typing import Any


def plan(tasks: str) -> None:
    from django.core.management import call_command

    from tests.work.agents import submit, task, workstream

    call_command("migrate", verbosity=0)
    count = int(tasks)
    submit(
        workstream("a", *(task(f"a{n}", *([f"a{n - 1}"] if n % 7 else [])) for n in range(count))),
        workstream("b", *(f"b{n}" for n in range(5)), depends_on=["a"]),
    )


def gated(tasks: str) -> None:
    from tests.work.agents import gate, submit, task, workstream

    numbers = range(int(tasks))
    submit(
        workstream(
            "a",
            *(task(f"a{n}", *([f"a{n - 1}"] if n else []), gates=[f"g{n}"]) for n in numbers),
            gates=[gate(f"g{n}", command=f"{sys.executable} -c pass") for n in numbers],
        )
    )


def cancel_workstream() -> None:
    from statecore import transitions
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.workstream import Workstream

    transitions.transition(Workstream, "a", "cascade_cancelled", actor=THE_SYSTEM)


def agent(name: str) -> None:
    from statecore.kernel.refusals import Refusal
    from statecore.machines.run import FINAL, Run
    from statecore.machines.task import Task
    from tests.work.agents import Agent

    def register() -> Any:
        try:
            return Agent(name)
        except Refusal:
            return Agent.registered(name)

    me = retry(register)
    while retry(lambda: Run.objects.get().state) not in FINAL:
        # All tasks it holds, including those of a claim with a lost response.
        held = retry(lambda: list(Task.objects.filter(worker=name))) or retry(lambda: claim_or_nothing(me))
        for each in held:
            retry(lambda each=each: report(me, each))
            print("done", each.pk, flush=True)
        if not held:
            time.sleep(0.05)  # no task is ready yet


def claim_or_nothing(me: Any) -> list[Any]:
    from statecore.kernel.refusals import Refusal

    try:
        found: list[Any] = me.claim()
    except Refusal:
        return []
    return found


def report(me: Any, task: Any) -> None:
    """Report the task; a repeated report is refused if the first one arrived and its response was lost."""
    from statecore.kernel.refusals import Refusal
    from statecore.machines.task import Task

    try:
        me.finish(task)
    except Refusal:
        assert Task.objects.get(pk=task.pk).state == "completed"


def retry(call: Any) -> Any:
    """Repeat the call while the database is unavailable."""
    from django.db import InterfaceError, OperationalError, connections

    while True:
        try:
            return call()
        except (OperationalError, InterfaceError):
            connections.close_all()
            print("away", flush=True)
            time.sleep(0.05)


def judge() -> None:
    from statecore.journal import Event
    from statecore.machines.run import Run
    from statecore.machines.task import Task
    from statecore.machines.worker import Worker
    from statecore.operations import integrity
    from tests.work.agents import states

    reports = Event.objects.filter(trigger="execution_completed").values_list("entity_id", flat=True)
    found = {
        "run": Run.objects.get().state,
        "tasks": states(Task),
        "reports": Counter(reports),
        "loads": list(Worker.objects.values_list("state", "current_load")),
        "events": Event.objects.count(),
        "findings": [str(finding) for finding in integrity.check_all()],
    }
    print(json.dumps(found))


def main() -> None:
    import django

    django.setup()
    command, *words = sys.argv[1:]
    commands = {"plan": plan, "gated": gated, "cancel": cancel_workstream, "agent": agent, "judge": judge}
    commands[command](*words)


if __name__ == "__main__":
    main()
