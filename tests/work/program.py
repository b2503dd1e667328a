"""Real processes on a database of their own.

python -m tests.work.program plan TASKS     makes the tables and submits a plan
python -m tests.work.program agent NAME     works until the run has ended, and says `done TASK` for what it was told
                                            is done; goes on when the database goes and comes back
python -m tests.work.program gated TASKS    the same with tasks one after the other, each behind a gate that is run
python -m tests.work.program call-off       calls the workstream off, and looks again at whom it could not reach
python -m tests.work.program judge          says as JSON how everything stands
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


def call_off() -> None:
    from statecore import door
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.workstream import Workstream

    door.transition(Workstream, "a", "cascade_cancelled", actor=THE_SYSTEM)


def agent(name: str) -> None:
    from statecore.kernel.refusals import Refusal
    from statecore.machines.run import FINAL, Run
    from statecore.machines.task import Task
    from tests.work.agents import Agent

    def registered() -> Any:
        try:
            return Agent(name)
        except Refusal:
            return Agent.known(name)

    me = patiently(registered)
    while patiently(lambda: Run.objects.get().state) not in FINAL:
        # Whatever it holds, also from a claim whose answer was lost.
        held = patiently(lambda: list(Task.objects.filter(worker=name))) or patiently(lambda: claimed(me))
        for each in held:
            patiently(lambda each=each: reported(me, each))
            print("done", each.pk, flush=True)
        if not held:
            time.sleep(0.05)  # nothing to do yet


def claimed(me: Any) -> list[Any]:
    from statecore.kernel.refusals import Refusal

    try:
        found: list[Any] = me.claim()
    except Refusal:
        return []
    return found


def reported(me: Any, task: Any) -> None:
    """A report whose answer was lost is sent again, and is then refused because it was heard."""
    from statecore.kernel.refusals import Refusal
    from statecore.machines.task import Task

    try:
        me.finish(task)
    except Refusal:
        assert Task.objects.get(pk=task.pk).state == "completed"


def patiently(deed: Any) -> Any:
    """Again and again while the database is away."""
    from django.db import InterfaceError, OperationalError, connections

    while True:
        try:
            return deed()
        except (OperationalError, InterfaceError):
            connections.close_all()
            print("away", flush=True)
            time.sleep(0.05)


def judge() -> None:
    from statecore import integrity
    from statecore.journal import Event
    from statecore.machines.run import Run
    from statecore.machines.task import Task
    from statecore.machines.worker import Worker
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
    deeds = {"plan": plan, "gated": gated, "call-off": call_off, "agent": agent, "judge": judge}
    deeds[command](*words)


if __name__ == "__main__":
    main()
