"""Measures a report with a claim, by one agent, in a long queue: 1,000 runs of 100 tasks, and one run of 100,000.

python -m benchmarks.fair_claims
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from django.db import connection

from benchmarks import seed
from benchmarks.support import environ, postgres, run_in_process

CASES = {"one run of 100,000 tasks": (1, 100_000), "1,000 runs of 100 tasks": (1_000, 100)}
ROUNDS, WARM_UP = 300, 20


def main() -> None:
    for name, (runs, each) in CASES.items():
        base = Path(tempfile.mkdtemp(prefix="bench-"))
        try:
            with postgres(base / "pg") as database:
                served, times = run_in_process(environ(base / "home", database("claim"), "settings"), work, runs, each)
        finally:
            shutil.rmtree(base, ignore_errors=True)
        slow = sorted(times)[len(times) * 9 // 10]
        print(f"{name}: median {median(times):.2f} ms, p90 {slow:.2f} ms, {served} runs served by {ROUNDS} claims")


def work(runs: int, each: int) -> tuple[int, list[float]]:
    """Returns how many runs were served, and the milliseconds of each claim."""
    from statecore import scheduling
    from statecore.kernel.actors import Actor

    prepare(runs, each)
    agent = Actor.agent("agent")
    held: list[Any] = []
    served, times = set(), []
    for _ in range(ROUNDS):
        done = {"attempt": 1, "exit_code": 0}
        reports = [scheduling.Report(task.pk, "execution_completed", done) for task in held]
        start = time.perf_counter()
        held = scheduling.report_and_claim("agent", reports, actor=agent, most=1).tasks
        times.append((time.perf_counter() - start) * 1000)
        served.add(held[0].run_id)
    return len(served), times[WARM_UP:]


def prepare(runs: int, each: int) -> None:
    """Fills the queues with copies of a run with one workstream and a queued task."""
    from statecore import scheduling, transitions
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.worker import Worker
    from statecore.reactions import run_queues
    from statecore.records import Phase
    from statecore.storage import triggers

    seed.migrate()
    Phase.objects.create(id="phase")
    workstream = {"id": "workstream", "tasks": [{"id": "task"}]}
    plan = {"id": "run", "phase": "phase", "workstreams": [workstream], "start": True}
    scheduling.submit_plan(plan, actor=THE_SYSTEM)
    with triggers.disabled(connection), connection.cursor() as cursor:
        seed.fill_rows(cursor, "statecore_run", "run", "run", runs, {})
        own = {"run_id": "'run_' || lpad(n::text, 9, '0')"}
        seed.fill_rows(cursor, "statecore_workstream", "workstream", "workstream", runs, own)
        number = f"lpad(((n - 1) % {runs} + 1)::text, 9, '0')"
        place = {"run_id": f"'run_' || {number}", "workstream_id": f"'workstream_' || {number}"}
        seed.fill(cursor, "statecore_task", "task", "task", runs * each, place)
        cursor.execute("ANALYZE")
    run_queues.tend()
    transitions.create(Worker, id="agent", actor=THE_SYSTEM)
    transitions.transition(Worker, "agent", "registration_completed", actor=THE_SYSTEM)


if __name__ == "__main__":
    main()
