"""Measures claiming and completing tasks against raw SKIP LOCKED and procrastinate, in alternating rounds.

python -m benchmarks.claim [--quick]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from django.db import connection

from benchmarks import seed
from benchmarks.contenders import CLAIMERS
from benchmarks.report import Lines, Report, Target
from benchmarks.support import Clients, environ, postgres, ratio, run_in_process

RESULTS = Path(__file__).parent / "results"
AGENTS, WORKSTREAMS = 8, 20


def main() -> None:
    options = _options()
    report = Report({"quick": options.quick, "queued": options.queued, "finished": options.finished})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database:
            _measure(report, environ(base / "home", database("claim"), "settings"), options)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if not options.quick:
        report.write(RESULTS, "claim", "Claim benchmark")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.claim", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds; writes no results")
    options = parser.parse_args()
    options.queued, options.finished = (4_000, 10_000) if options.quick else (20_000, 1_000_000)
    options.rounds, options.each = (4, 20) if options.quick else (12, 40)
    return options


def _measure(report: Report, settings: dict[str, str], options: argparse.Namespace) -> None:
    run_in_process(settings, prepare, options.queued, options.finished)
    rates: dict[str, list[float]] = {name: [] for name in CLAIMERS}
    with Clients(AGENTS, settings) as clients:
        shares = [(f"agent-{number}", options.each) for number in range(AGENTS)]
        for number in range(options.rounds + 1):
            for name in CLAIMERS:
                seconds, _results = clients.run(name, shares)
                if number:
                    rates[name].append(options.each * AGENTS / seconds)
    raw = rates["raw SKIP LOCKED"]
    lines: Lines = [("contender", "tasks/s", "ratio to raw")]
    lines += [(name, f"{median(found):,.0f}", f"{ratio(found, raw):.2f}") for name, found in rates.items()]
    statecore = rates["report and claim"]  # what the agent does
    targets = [
        Target("claim and complete, to raw SKIP LOCKED", 0.5, ratio(statecore, raw)),
        Target("claim and complete, to procrastinate", 2, ratio(statecore, rates["procrastinate"])),
        Target("ten at a time, to one at a time", 3, ratio(rates["claim ten"], rates["claim, then report"])),
    ]
    report.add("Claim and complete, eight agents, PostgreSQL", lines, rates, targets)


def prepare(queued: int, finished: int) -> None:
    """Fills a running plan and many finished tasks, and the same for each contender, without ANALYZE."""
    from statecore import scheduling, transitions
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.worker import Worker
    from statecore.records import Phase
    from statecore.storage import triggers

    seed.migrate()
    Phase.objects.create(id="phase")
    each = queued // WORKSTREAMS
    workstreams = [
        {"id": f"ws-{number}", "tasks": [{"id": f"ws-{number}:{task}"} for task in range(each)]}
        for number in range(WORKSTREAMS)
    ]
    plan = {"id": "run", "phase": "phase", "workstreams": workstreams, "start": True}
    scheduling.submit_plan(plan, actor=THE_SYSTEM)
    for number in range(AGENTS):
        for name in (f"agent-{number}", f"busy-agent-{number}"):
            transitions.create(Worker, id=name, max_concurrent_tasks=10, actor=THE_SYSTEM)
            transitions.transition(Worker, name, "registration_completed", actor=THE_SYSTEM)
    with triggers.disabled(connection), connection.cursor() as cursor:
        seed.fill_finished(cursor, "ws-0:0", finished)
        seed.make_twins(cursor)
        _fill_procrastinate(cursor, queued, finished)
        cursor.execute("CHECKPOINT")


def _fill_procrastinate(cursor: Any, queued: int, finished: int) -> None:
    from procrastinate.schema import SchemaManager

    cursor.execute(SchemaManager.get_schema())
    cursor.execute("SET session_replication_role = replica")
    insert = "INSERT INTO procrastinate_jobs (queue_name, task_name, args, status) SELECT 'q', 't', '{}', %s "
    for status, count in (("succeeded", finished), ("todo", queued)):
        cursor.execute(f"{insert} FROM generate_series(1, %s)", [status, count])
    cursor.execute("SET session_replication_role = origin")


if __name__ == "__main__":
    main()
