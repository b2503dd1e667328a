"""Measures the effect of size: a large plan, a large workstream, and sweeps over many finished tasks.

python -m benchmarks.scale [--quick] [--rows N]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from django.db import connection

from benchmarks import seed
from benchmarks.report import Lines, Report, Target
from benchmarks.support import environ, postgres, run_in_process

RESULTS = Path(__file__).parent / "results"
GATES = 5_000
RUNS = 10
SINGLE_RUN = "reconcile counters"  # thousands of queries per run


def main() -> None:
    options = _options()
    report = Report({"quick": options.quick, "rows": options.rows, "plan": options.plan})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database:
            subprocess.run(["git", "init", "-q", base / "tree"], check=True)  # noqa: S607 - git from PATH
            executors = {"STATECORE_GATE_COMMANDS": "true", "STATECORE_REPOSITORY": str(base / "tree")}
            settings = environ(base / "home", database("scale"), "settings") | executors
            run_in_process(settings, seed.migrate)
            _measure_plan(report, run_in_process(settings, submit, options.plan))
            _measure_filling(report, run_in_process(settings, fill, options.workstream), options.workstream)
            _measure_sweeps(report, run_in_process(settings, sweep, options.rows), options.rows)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if not options.quick:
        report.write(RESULTS, "scale", "Scale benchmark")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows; writes no results")
    parser.add_argument("--rows", type=int, help="finished tasks the sweeps must skip (default 10,000,000)")
    options = parser.parse_args()
    options.plan, options.workstream = (1_000, 500) if options.quick else (10_000, 5_000)
    options.rows = options.rows or (20_000 if options.quick else 10_000_000)
    return options


def _measure_plan(report: Report, seconds: float) -> None:
    tasks = report.options["plan"]
    lines: Lines = [("plan", "seconds"), (f"{tasks:,} tasks, in chains of three", f"{seconds:.1f}")]
    report.add("Submitting a plan", lines, seconds, [Target("seconds to submit a plan", 10, seconds, at_most=True)])


def _measure_filling(report: Report, each: list[float], size: int) -> None:
    fifth = len(each) // 5
    first, last = median(each[:fifth]), median(each[-fifth:])
    lines: Lines = [("claim and report of ten tasks", "milliseconds")]
    lines += [
        ("first fifth of the workstream", f"{first * 1e3:.1f}"),
        ("last fifth of the workstream", f"{last * 1e3:.1f}"),
    ]
    target = Target("last fifth of a workstream to the first", 1.3, last / first, at_most=True)
    report.add(f"A workstream of {size:,} tasks", lines, each, [target])


def _measure_sweeps(report: Report, slowest: dict[str, tuple[list[float], list[float]]], rows: int) -> None:
    when = ("before ANALYZE", "after ANALYZE")
    lines: Lines = [("slowest query per run, ms", *(f"{time}, {what}" for time in when for what in ("median", "max")))]
    for name, each in slowest.items():
        lines.append((name, *(f"{of(runs) * 1e3:.1f}" for runs in each for of in (median, max))))
    worst = max(max(runs) for each in slowest.values() for runs in each)
    target = Target("slowest query of any sweep, ms", 50, worst * 1e3, at_most=True)
    report.add(f"Sweeps and pages, {rows:,} finished tasks, {GATES:,} waiting gates", lines, slowest, [target])


# Runs in a separate process with Django


def submit(tasks: int) -> float:
    """Submits ten workstreams of tasks in chains of three and adds a patch. Returns the seconds to submit."""
    from statecore import scheduling, transitions
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.patch_ledger import PatchLedger
    from statecore.records import Patch, Phase

    Phase.objects.create(id="phase")
    plan = {
        "id": "large",
        "phase": "phase",
        "start": True,
        "workstreams": [_chains(f"large-{n}", tasks // 10) for n in range(10)],
    }
    start = time.perf_counter()
    scheduling.submit_plan(plan, actor=THE_SYSTEM)
    seconds = time.perf_counter() - start
    Patch.objects.create(id="patch", diff="")
    transitions.create(PatchLedger, id="left", patch="patch", workstream="large-0", actor=THE_SYSTEM)
    _cancel("large")
    return seconds


def _chains(name: str, tasks: int) -> dict[str, Any]:
    after = [[f"{name}:{n - 1}"] if n % 3 else [] for n in range(tasks)]
    return {"id": name, "tasks": [{"id": f"{name}:{n}", "depends_on": after[n]} for n in range(tasks)]}


def _cancel(run: str) -> None:
    from django.contrib.auth.models import User

    from statecore import transitions
    from statecore.kernel.actors import Actor, Channel
    from statecore.machines.run import Run

    operator = Actor.operator(User(username="bench", is_superuser=True), Channel.CLI)
    transitions.transition(Run, run, "run_canceled", actor=operator)


def fill(tasks: int) -> list[float]:
    """Completes a workstream ten tasks at a time. Returns the seconds of each ten."""
    from statecore import scheduling, transitions
    from statecore.kernel.actors import THE_SYSTEM, Actor
    from statecore.machines.task import Task
    from statecore.machines.worker import Worker

    agent = Actor.agent("agent")
    workstream = {"id": "filling", "tasks": [{"id": f"filling:{n}"} for n in range(tasks)]}
    scheduling.submit_plan(
        {"id": "fills", "phase": "phase", "workstreams": [workstream], "start": True}, actor=THE_SYSTEM
    )
    transitions.create(Worker, id="agent", max_concurrent_tasks=10, actor=agent)
    transitions.transition(Worker, "agent", "registration_completed", actor=agent)
    each = []
    for _ in range(tasks // 10):
        start = time.perf_counter()
        for task in scheduling.claim("agent", actor=agent):
            report = {"attempt": task.attempt, "exit_code": 0}
            transitions.transition(Task, task.pk, "execution_completed", actor=agent, params=report)
        each.append(time.perf_counter() - start)
    return each


def sweep(rows: int) -> dict[str, tuple[list[float], list[float]]]:
    """Returns the slowest query of each run of each sweep, with `rows` finished tasks, before and after ANALYZE."""
    from statecore.storage import triggers

    _validate_one()
    with triggers.disabled(connection), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE statecore_task SET (autovacuum_enabled = off)")
        with seed.in_bulk(cursor, "statecore_task"):
            seed.fill_rows(cursor, "statecore_task", "filling:0", "done", rows, seed.DONE)
        apart = {"state_entered_at": "t.state_entered_at + n * interval '1 millisecond'"}
        seed.fill(cursor, "statecore_patchledger", "left", "left", rows // 100, apart)
        seed.fill(cursor, "statecore_testgate", "gate", "gate", GATES)
        seed.fill(cursor, "statecore_task", "gated", "task", GATES)
        cursor.execute(
            "INSERT INTO statecore_task_gates (task_id, testgate_id) "
            "SELECT replace(id, 'gate', 'task'), id FROM statecore_testgate WHERE id LIKE 'gate%_%'"
        )
    _number()
    before = {name: _slowest(name, sweep) for name, sweep in sweeps().items()}
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return {name: (before[name], _slowest(name, sweep)) for name, sweep in sweeps().items()}


def _number() -> None:
    """Numbers the events in place of the sequencer. The counters are marked as current; reconciling corrects them."""
    from statecore.delivery.sequencer import Sequencer
    from statecore.delivery.sinks.counters import Counters
    from statecore.records import SinkCursor

    sequencer = Sequencer(())
    sequencer.leadership.acquire()
    numberer = sequencer.numberer
    numberer.load_mark()
    numberer.number_new_events()
    SinkCursor.objects.create(sink=Counters.name, position=numberer.head)


def _validate_one() -> None:
    """Creates a task that waits only for its gate, as the template for copies."""
    from statecore import scheduling, transitions
    from statecore.kernel.actors import THE_SYSTEM, Actor
    from statecore.machines.task import Task

    gated = {"id": "gated", "gates": ["gate"]}
    workstream = {"id": "gates", "tasks": [gated], "gates": [{"id": "gate", "gate_type": "UNIT", "command": "true"}]}
    scheduling.submit_plan(
        {"id": "gates", "phase": "phase", "workstreams": [workstream], "start": True}, actor=THE_SYSTEM
    )
    agent = Actor.agent("agent")
    (task,) = scheduling.claim("agent", actor=agent)
    report = {"attempt": task.attempt, "exit_code": 0}
    transitions.transition(Task, task.pk, "execution_completed", actor=agent, params=report)


def sweeps() -> dict[str, Callable[[], Any]]:
    """Returns all periodic work except the export, and the queries of the live pages."""
    from statecore import journal
    from statecore.bulk import jobs
    from statecore.delivery.sinks import counters, notices
    from statecore.executors import compensation, gates, patches
    from statecore.operations import integrity
    from statecore.reactions import abandoned
    from statecore.reactions.sweep import reevaluate_waiting
    from statecore.read_models import board, stuck
    from statecore.records import recall
    from statecore.scheduling import breakers, timers

    return {
        "time out tasks": timers.time_out_tasks,
        "queue retries": timers.queue_retries,
        "missed heartbeats": timers.mark_unresponsive_workers,
        "lost workers": timers.end_lost_workers,
        "expire recalls": recall.forget,
        "re-evaluate entities": reevaluate_waiting,
        "mark abandoned": abandoned.mark_overlooked,
        "cool down breakers": breakers.half_open_due,
        "due gates": gates.find_due,
        "time out gates": gates.time_out_gates,
        "due patches": patches.find_due_repositories,
        "due rollbacks": compensation.find_due,
        "due bulk jobs": jobs.run_due,
        "due notifications": notices.send_due,
        "recover stalled": stuck.recover_stalled,
        "invariants": integrity.sweep_invariants,
        "recent integrity": integrity.check_recent,
        "expire idempotency keys": journal.expire_idempotency_records,
        SINGLE_RUN: counters.reconcile,
        "stuck (page)": stuck.list_stuck,
        "stats (page)": board.get_stats,
    }


def _slowest(name: str, sweep: Callable[[], Any]) -> list[float]:
    """Returns the slowest query of each run; the first run finds cold caches."""
    seen: list[float] = []

    def timed(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        start = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            seen.append(time.perf_counter() - start)

    found = []
    for _ in range(1 if name == SINGLE_RUN else RUNS):
        seen.clear()
        with connection.execute_wrapper(timed):
            sweep()
        found.append(max(seen, default=0.0))
    return found


if __name__ == "__main__":
    main()
