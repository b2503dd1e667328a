"""Measures list pages over REST at different depths of a large table.

python -m benchmarks.lists [--quick] [--rows N]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from django.db import connection

from benchmarks import seed
from benchmarks.http_clients import Address
from benchmarks.report import Lines, Report, Target
from benchmarks.rest import create_operator_token, redis, server
from benchmarks.support import environ, postgres, run_in_process

RESULTS = Path(__file__).parent / "results"
DEPTHS = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99)
SAME_MOMENT = 1_000  # tasks submitted as one plan share their creation time
LISTS = {
    "newest first": "?page_size=100",
    "oldest first": "?page_size=100&ordering=created_at",
    "by id": "?page_size=100&ordering=id",
    "newest first, one state": "?page_size=100&state=completed",
}
WANTED_MS = 30


def main() -> None:
    options = _options()
    report = Report({"quick": options.quick, "rows": options.rows, "pages": options.pages})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database, ExitStack() as stack:
            settings = environ(base / "home", database("lists"), "settings")
            token, starts = run_in_process(settings, prepare, options.rows)
            given = {**settings, "REDIS_URL": stack.enter_context(redis(base / "redis.sock"))}
            address = stack.enter_context(server("statecore.project.wsgi:application", given))
            _report(report, _measure(address, token, starts, options.pages))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if not options.quick:
        report.write(RESULTS, "lists", "List benchmark")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lists", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pages; writes no results")
    parser.add_argument("--rows", type=int, help="tasks in the list (default 10,000,000)")
    options = parser.parse_args()
    options.rows = options.rows or (200_000 if options.quick else 10_000_000)
    options.pages = 25 if options.quick else 100
    return options


Starts = dict[tuple[str, float], str]


def prepare(rows: int) -> tuple[str, Starts]:
    """Creates the tasks. Returns a token and the query that starts at each depth of each list."""
    from statecore import transitions
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.run import Run
    from statecore.machines.task import Task
    from statecore.machines.workstream import Workstream
    from statecore.records import Phase
    from statecore.storage import triggers

    seed.migrate()
    Phase.objects.create(id="phase")
    transitions.create(Run, actor=THE_SYSTEM, id="run", phase="phase")
    transitions.create(Workstream, actor=THE_SYSTEM, id="workstream", run="run")
    transitions.create(Task, actor=THE_SYSTEM, id="task", workstream="workstream")
    earlier = {"created_at": f"t.created_at - (n / {SAME_MOMENT}) * interval '1 minute'"}
    with (
        triggers.disabled(connection),
        connection.cursor() as cursor,
        seed.in_bulk(cursor, "statecore_task"),
    ):
        seed.fill_rows(cursor, "statecore_task", "task", "done", rows, seed.DONE | earlier)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) statecore_task")
        cursor.execute("CHECKPOINT")
        starts = {
            (name, depth): _start(cursor, query, depth, rows) for name, query in LISTS.items() for depth in DEPTHS
        }
    return create_operator_token(), starts


def _start(cursor: Any, query: str, depth: float, rows: int) -> str:
    """Returns the query for the page at this depth, with the cursor the previous page would have returned."""
    from statecore.api.pages import NEWEST_FIRST, Cursor, encode_cursor

    ordering = query.partition("ordering=")[2] or NEWEST_FIRST
    if not depth:
        return query
    # Rows are numbered from newest to oldest.
    number = int(depth * rows) if ordering in (NEWEST_FIRST, "id") else int((1 - depth) * rows)
    key = f"done_{number:09d}"
    cursor.execute("SELECT created_at FROM statecore_task WHERE id = %s", [key])
    value = key if ordering == "id" else cursor.fetchone()[0]
    return f"{query}&cursor={encode_cursor(Cursor(back=False, ordering=ordering, value=value, key=key))}"


def _measure(address: Address, token: str, starts: Starts, pages: int) -> dict[tuple[str, float], list[float]]:
    """Follows `next` and returns the milliseconds of each page. Lists and depths alternate; two pages warm up."""
    client = HTTPConnection(*address)
    headers = {"Authorization": f"Bearer {token}", "Host": "localhost"}
    places = dict(starts)
    took: dict[tuple[str, float], list[float]] = {start: [] for start in starts}
    for number in range(pages + 2):
        for start, query in places.items():
            begin = time.perf_counter()
            client.request("GET", f"/api/v1/tasks/{query}", headers=headers)
            answer = client.getresponse()
            text = answer.read()
            seconds = time.perf_counter() - begin
            if answer.status != 200:
                raise RuntimeError(text.decode())
            page = json.loads(text)
            places[start] = "?" + (page["next"] or "").partition("?")[2] if page["next"] else starts[start]
            if number >= 2:
                took[start].append(seconds * 1000)
    return took


def _report(report: Report, took: dict[tuple[str, float], list[float]]) -> None:
    worst = {start: quantiles(each, n=100)[98] for start, each in took.items()}
    lines: Lines = [("list", "depth", "median ms", "p99 ms")]
    lines += [
        (name, f"{depth:.0%}", f"{median(each):.1f}", f"{worst[name, depth]:.1f}")
        for (name, depth), each in took.items()
    ]
    deepest = max(worst, key=worst.__getitem__)
    target = Target(f"p99 per page in ms, slowest list: {deepest[0]}", WANTED_MS, worst[deepest], at_most=True)
    samples = {f"{name} at {depth}": each for (name, depth), each in took.items()}
    report.add(f"Pages of 100 of {report.options['rows']:,} tasks", lines, samples, [target])


if __name__ == "__main__":
    main()
