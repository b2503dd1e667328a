"""Whether size matters: a large plan, a workstream that fills, and the sweeps over many finished tasks.

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
from benchmarks.support import environ, once, postgres

RESULTS = Path(__file__).parent / "results"
GATES = 5_000
RUNS = 10
ONCE = "reconcile counters"  # thousands of queries in one run


def main() -> None:
    options = _options()
    report = Report({"quick": options.quick, "rows": options.rows, "plan": options.plan})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database:
            subprocess.run(["git", "init", "-q", base / "tree"], check=True)  # noqa: S607 - whichever there is
            executors = {"STATECORE_GATE_COMMANDS": "true", "STATECORE_REPOSITORY": str(base / "tree")}
            settings = environ(base / "home", database("scale"), "settings") | executors
            once(settings, seed.migrate)
            _measure_plan(report, once(settings, submit, options.plan))
            _measure_filling(report, once(settings, fill, options.workstream), options.workstream)
            _measure_sweeps(report, once(settings, sweep, options.rows), options.rows)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if not options.quick:
        report.write(RESULTS, "scale", "Size, measured")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a first impression; writes nothing")
    parser.add_argument("--rows", type=int, help="finished tasks the sweeps have to look past (10,000,000)")
    options = parser.parse_args()
    options.plan, options.workstream = (1_000, 500) if options.quick else (10_000, 5_000)
    options.rows = options.rows or (20_000 if options.quick else 10_000_000)
    return options


def _measure_plan(report: Report, seconds: float) -> None:
    tasks = report.options["plan"]
    lines: Lines = [("plan", "seconds"), (f"{tasks:,} tasks, each third independent", f"{seconds:.1f}")]
    report.add("A plan", lines, seconds, [Target("seconds until a plan is accepted", 10, seconds, at_most=True)])


def _measure_filling(report: Report, each: list[float], size: int) -> None:
    fifth = len(each) // 5
    first, last = median(each[:fifth]), median(each[-fifth:])
    lines: Lines = [("of the claims and reports by ten", "milliseconds")]
    lines += [("the first fifth", f"{first * 1e3:.1f}"), ("the last fifth", f"{last * 1e3:.1f}")]
    target = Target("the last fifth of a workstream to the first", 1.3, last / first, at_most=True)
    report.add(f"A workstream of {size:,} tasks", lines, each, [target])


def _measure_sweeps(report: Report, slowest: dict[str, tuple[list[float], list[float]]], rows: int) -> None:
    when = ("before any ANALYZE", "after one")
    lines: Lines = [("slowest query of a run, ms", *(f"{time}, {what}" for time in when for what in ("median", "max")))]
    for name, each in slowest.items():
        lines.append((name, *(f"{of(runs) * 1e3:.1f}" for runs in each for of in (median, max))))
    worst = max(max(runs) for each in slowest.values() for runs in each)
    target = Target("slowest query of any run of a sweep, milliseconds", 50, worst * 1e3, at_most=True)
    report.add(f"Sweeps and screens, {rows:,} tasks finished, {GATES:,} gates to run", lines, slowest, [target])


# In a process of its own, under Django


def submit(tasks: int) -> float:
    """Ten workstreams of chains of three, and a patch that they leave behind."""
    from statecore import door, scheduling
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
    scheduling.submit(plan, actor=THE_SYSTEM)
    seconds = time.perf_counter() - start
    Patch.objects.create(id="patch", diff="")
    door.create(PatchLedger, id="left", patch="patch", workstream="large-0", actor=THE_SYSTEM)
    _cancel("large")
    return seconds


def _chains(name: str, tasks: int) -> dict[str, Any]:
    after = [[f"{name}:{n - 1}"] if n % 3 else [] for n in range(tasks)]
    return {"id": name, "tasks": [{"id": f"{name}:{n}", "depends_on": after[n]} for n in range(tasks)]}


def _cancel(run: str) -> None:
    from django.contrib.auth.models import User

    from statecore import door
    from statecore.kernel.actors import Actor, Channel
    from statecore.machines.run import Run

    operator = Actor.operator(User(username="bench", is_superuser=True), Channel.CLI)
    door.transition(Run, run, "run_canceled", actor=operator)


def fill(tasks: int) -> list[float]:
    """Complete a workstream ten tasks at a time; the seconds of each ten."""
    from statecore import door, scheduling
    from statecore.kernel.actors import THE_SYSTEM, Actor
    from statecore.machines.task import Task
    from statecore.machines.worker import Worker

    agent = Actor.agent("agent")
    workstream = {"id": "filling", "tasks": [{"id": f"filling:{n}"} for n in range(tasks)]}
    scheduling.submit({"id": "fills", "phase": "phase", "workstreams": [workstream], "start": True}, actor=THE_SYSTEM)
    door.create(Worker, id="agent", max_concurrent_tasks=10, actor=agent)
    door.transition(Worker, "agent", "registration_completed", actor=agent)
    each = []
    for _ in range(tasks // 10):
        start = time.perf_counter()
        for task in scheduling.claim("agent", actor=agent):
            report = {"attempt": task.attempt, "exit_code": 0}
            door.transition(Task, task.pk, "execution_completed", actor=agent, params=report)
        each.append(time.perf_counter() - start)
    return each


def sweep(rows: int) -> dict[str, tuple[list[float], list[float]]]:
    """The slowest query of each run of a sweep, with that many finished tasks in the way, before and after ANALYZE."""
    from statecore.kernel import triggers

    _validate_one()
    with triggers.lowered(connection), connection.cursor() as cursor:
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
    """As the sequencer does, which is not here; the counters are taken to be up to date, and are put right later."""
    from statecore.records import SinkCursor
    from statecore.sequencer.numbering import Numberer
    from statecore.sinks.counters import Counters

    numberer = Numberer()
    numberer.begin()
    numberer.number()
    SinkCursor.objects.create(sink=Counters.name, position=numberer.head)


def _validate_one() -> None:
    """A task that is done but for its gate, to be copied."""
    from statecore import door, scheduling
    from statecore.kernel.actors import THE_SYSTEM, Actor
    from statecore.machines.task import Task

    gated = {"id": "gated", "gates": ["gate"]}
    workstream = {"id": "gates", "tasks": [gated], "gates": [{"id": "gate", "gate_type": "UNIT", "command": "true"}]}
    scheduling.submit({"id": "gates", "phase": "phase", "workstreams": [workstream], "start": True}, actor=THE_SYSTEM)
    agent = Actor.agent("agent")
    (task,) = scheduling.claim("agent", actor=agent)
    report = {"attempt": task.attempt, "exit_code": 0}
    door.transition(Task, task.pk, "execution_completed", actor=agent, params=report)


def sweeps() -> dict[str, Callable[[], Any]]:
    """What runs by itself but for the export, which writes all that is new; and what every screen asks for."""
    from statecore import board, bulk, integrity, journal, stuck
    from statecore.executors import compensation, gates, patches
    from statecore.reactions.sweep import look_around
    from statecore.records import recall
    from statecore.scheduling import breakers, timers
    from statecore.sinks import counters, notices
    from statecore.stuck import abandoned

    return {
        "time_out_tasks": timers.time_out_tasks,
        "queue_retries": timers.queue_retries,
        "miss_heartbeats": timers.miss_heartbeats,
        "give_up_workers": timers.give_up_workers,
        "forget recalls": recall.forget,
        "look_around": look_around,
        "mark_overlooked": abandoned.mark_overlooked,
        "cool_down breakers": breakers.cool_down,
        "due gates": gates.due,
        "time_out_gates": gates.time_out_gates,
        "due patches": patches.due,
        "due rollbacks": compensation.due,
        "due bulk jobs": bulk.run_due,
        "due notices": notices.send_due,
        "recover_stalled": stuck.recover_stalled,
        "sweep_invariants": integrity.sweep_invariants,
        "check_recent integrity": integrity.check_recent,
        "expire_idempotency_records": journal.expire_idempotency_records,
        ONCE: counters.reconcile,
        "stuck, a screen": stuck.stuck,
        "stats, a screen": board.stats,
    }


def _slowest(name: str, sweep: Callable[[], Any]) -> list[float]:
    """The slowest query of each run; the first run reads what the others find in memory."""
    seen: list[float] = []

    def timed(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        start = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            seen.append(time.perf_counter() - start)

    found = []
    for _ in range(1 if name == ONCE else RUNS):
        seen.clear()
        with connection.execute_wrapper(timed):
            sweep()
        found.append(max(seen, default=0.0))
    return found


if __name__ == "__main__":
    main()
