"""Measures what a transition costs on disk: `python -m benchmarks.storage`.

The tasks of a plan are claimed and completed and the sequencer numbers every event. The growth of tables, indexes and
write-ahead log is divided by the number of events. Other load on the machine does not affect the result.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from django.db import connection

from benchmarks import seed
from benchmarks.report import Lines, Report
from benchmarks.support import environ, postgres, run_in_process

RESULTS = Path(__file__).parent / "results"
TASKS, BATCH = 10_000, 10
TABLES = {
    "events": "statecore_event",
    "positions": "statecore_position",
    "tasks": "statecore_task",
    "whole database": None,
}


def main() -> None:
    report = Report({"tasks": TASKS, "claimed": f"{BATCH} at a time"})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database:
            found = run_in_process(environ(base / "home", database("storage"), "settings"), measure)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    lines: Lines = [("what", "bytes per event")]
    lines += [(name, f"{size / found['count']:,.0f}") for name, size in found["sizes"].items()]
    report.add("A transition on disk, PostgreSQL", lines, found, [])
    report.write(RESULTS, "storage", "Storage benchmark")


def measure() -> dict[str, Any]:
    from statecore.delivery.sequencer import Sequencer
    from statecore.journal import Event

    seed.migrate()
    before, wal, count = _sizes(), _wal(), Event.objects.count()
    _work()
    numbering = Sequencer(())
    numbering.leadership.acquire()
    numbering.numberer.load_mark()
    while numbering.run_round():
        pass
    after = _sizes()
    sizes = {name: after[name] - before[name] for name in after}
    return {"count": Event.objects.count() - count, "sizes": {**sizes, "write-ahead log": _wal() - wal}}


def _work() -> None:
    from statecore import scheduling, transitions
    from statecore.kernel.actors import THE_SYSTEM, Actor
    from statecore.machines.task import Task
    from statecore.machines.worker import Worker
    from statecore.records import Phase

    Phase.objects.create(id="phase")
    tasks = [{"id": f"task-{number}"} for number in range(TASKS)]
    parts = [{"id": f"ws-{first}", "tasks": tasks[first : first + 500]} for first in range(0, TASKS, 500)]
    scheduling.submit_plan({"id": "run", "phase": "phase", "workstreams": parts, "start": True}, actor=THE_SYSTEM)
    agent = Actor.agent("agent")
    scheduling.register(Worker, actor=agent, id="worker", max_concurrent_tasks=BATCH)
    while held := scheduling.claim("worker", actor=agent, most=BATCH):
        report = {"attempt": 1, "exit_code": 0}
        transitions.transition_many(Task, [task.pk for task in held], "execution_completed", actor=agent, params=report)


def _sizes() -> dict[str, int]:
    return {
        name: _one("SELECT pg_total_relation_size(%s::regclass)", table)
        if table
        else _one("SELECT pg_database_size(current_database())")
        for name, table in TABLES.items()
    }


def _wal() -> int:
    return _one("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")


def _one(query: str, *params: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(query, params or None)
        (found,) = cursor.fetchone() or (0,)
    return int(found)


if __name__ == "__main__":
    main()
