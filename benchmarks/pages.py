"""Measures the console's pages at two table sizes, and the size and time of a first load in a browser.

python -m benchmarks.pages [--quick] [--tasks N] [--runs]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from django.db import connection

from benchmarks import run_pages, seed
from benchmarks.live import web
from benchmarks.report import Lines, Report, Target
from benchmarks.sequencer import running
from benchmarks.support import environ, postgres, run_in_process
from tests.support import chromium

RESULTS = Path(__file__).parent / "results"
LENGTH = 5  # events per task
FULL_BODIES = 1_000  # only the first and last tasks have full event bodies; pages show no others
SMALL = 20  # pages are measured first with 1/20 of the rows
ROUNDS = 60
PASSWORD = "only for the benchmark"  # noqa: S105 - the database is deleted at the end
PAGES = {
    "overview": "/",
    "machine": "/machines/tasks/",
    "machine, by id": "/machines/tasks/?order=id",
    "machine, one live state": "/machines/tasks/?q=state:queued",
    "entity": "/machines/tasks/done_000000007/",
    "entity, live": "/machines/tasks/hot:7/",
    "wall": "/wall/",
    "audit": "/audit/",
    "overrides": "/overrides/",
}
# Measured with many late entities.
LATE = 10_000
LATE_PAGES = {
    "incidents": "/incidents/",
    "incident": "/incidents/{incident}/",
    "incidents over REST": "/api/v1/incidents/?open=true",
    "stuck over REST": "/api/v1/stuck/",
    "overview": "/",
}
HEADLINE = ("overview", "machine", "entity")
WANTED_MS, WANTED_QUERIES, WANTED_GROWTH = 60, 12, 1.5
WANTED_BYTES, WANTED_SECONDS, THROTTLE = 250_000, 1.0, 4


class Cost(NamedTuple):
    """Per request: elapsed, process CPU and database seconds; and the maximum number of queries."""

    total: list[float]
    process: list[float]
    database: list[float]
    queries: int

    def percentile_ms(self, share: float) -> float:
        return sorted(self.total)[int(len(self.total) * share)] * 1e3

    @property
    def process_ms(self) -> float:
        return median(self.process) * 1e3

    @property
    def database_ms(self) -> float:
        return median(self.database) * 1e3


def main() -> None:
    options = _options()
    report = Report(
        {
            "quick": options.quick,
            "tasks": options.tasks,
            "events": options.tasks * LENGTH,
            "events with full bodies": 4 * FULL_BODIES * LENGTH,
        }
    )
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg", log="2GB") as database:
            settings = environ(base / "home", database("pages"), "settings")
            run_in_process(settings, prepare)
            if options.runs:
                measure_runs(report, base / "home", settings)
                report.write(RESULTS, "run_pages", "Run page benchmark")
                return
            before = run_in_process(settings, measure, "done", options.tasks // SMALL)
            after = run_in_process(settings, measure, "more", options.tasks - options.tasks // SMALL)
            _report_pages(report, before, after)
            _report_late(report, run_in_process(settings, measure_late))
            with running(base / "home", settings, with_sequencer=False), web(settings) as (_process, port):
                _report_first_load(report, first_load(port))
            measure_runs(report, base / "home", settings)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if not options.quick:
        report.write(RESULTS, "pages", "Console page benchmark")


def measure_runs(report: Report, home: Path, settings: dict[str, str]) -> None:
    """The pages of runs of 100 to 10,000 tasks, in the middle of their work."""
    run_in_process(settings, run_pages.prepare)
    server = run_in_process(settings, run_pages.measure_server)
    with running(home, settings, with_sequencer=False), web(settings) as (_process, port), _browser() as browser:
        found = run_pages.measure_browser(browser, port, _logged_in(browser, port))
    run_pages.report_runs(report, server, found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows; writes no results")
    parser.add_argument("--tasks", type=int, help="finished tasks with five events each (default 10,000,000)")
    parser.add_argument(
        "--runs", action="store_true", help="only the pages of runs, whose results are in a file of their own"
    )
    options = parser.parse_args()
    options.tasks = options.tasks or (200_000 if options.quick else 10_000_000)
    return options


def _report_pages(report: Report, before: dict[str, Cost], after: dict[str, Cost]) -> None:
    lines: Lines = [
        ("page", "p50 ms", "p95 ms", "process ms", "database ms", "queries", f"p50 ratio to 1/{SMALL} size")
    ]
    for name, cost in after.items():
        growth = cost.percentile_ms(0.5) / before[name].percentile_ms(0.5)
        shares = (
            f"{cost.percentile_ms(0.5):.1f}",
            f"{cost.percentile_ms(0.95):.1f}",
            f"{cost.process_ms:.1f}",
            f"{cost.database_ms:.1f}",
        )
        lines.append((name, *shares, str(cost.queries), f"{growth:.2f}"))
    headline = [after[name] for name in HEADLINE]
    slowest_growth = max(after[name].percentile_ms(0.5) / before[name].percentile_ms(0.5) for name in HEADLINE)
    targets = [
        Target(
            "p95 of overview, machine and entity in ms",
            WANTED_MS,
            max(c.percentile_ms(0.95) for c in headline),
            at_most=True,
        ),
        Target("queries per page", WANTED_QUERIES, max(cost.queries for cost in headline), at_most=True),
        Target("p50 ratio, full size to 1/20", WANTED_GROWTH, slowest_growth, at_most=True),
    ]
    tasks = report.options["tasks"]
    samples = {name: cost._asdict() for name, cost in after.items()}
    report.add(f"Pages at {tasks:,} tasks and {tasks * LENGTH:,} events", lines, samples, targets)


def _report_late(report: Report, found: dict[str, Any]) -> None:
    costs = found["pages"]
    lines: Lines = [("page", "p50 ms", "p95 ms", "queries")]
    lines += [
        (name, f"{cost.percentile_ms(0.5):.1f}", f"{cost.percentile_ms(0.95):.1f}", str(cost.queries))
        for name, cost in costs.items()
    ]
    lines += [(name, f"{seconds:.2f} s", "", "") for name, seconds in found["sweeps"].items()]
    slowest = max(costs[name].percentile_ms(0.95) for name in ("incidents", "incident"))
    targets = [Target("p95 of incidents in ms", WANTED_MS, slowest, at_most=True)]
    samples = {name: cost._asdict() for name, cost in costs.items()}
    report.add(f"Incidents with {LATE:,} late tasks", lines, samples, targets)


def _report_first_load(report: Report, found: dict[str, float]) -> None:
    lines: Lines = [
        ("overview, nothing cached", "measured"),
        *((name, f"{value:,.2f}") for name, value in found.items()),
    ]
    targets = [
        Target("bytes of the first load", WANTED_BYTES, found["bytes"], at_most=True),
        Target(f"seconds until usable, CPU slowed {THROTTLE} times", WANTED_SECONDS, found["seconds"], at_most=True),
    ]
    report.add("First load", lines, found, targets)


# Runs in a separate process with Django


def prepare() -> None:
    """Submits a plan that waits for workers, and creates a user who may see it."""
    from django.contrib.auth.models import Group, User

    from statecore import scheduling
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.records import Phase

    seed.migrate()
    Phase.objects.create(id="phase")
    tasks = [{"id": f"hot:{number}"} for number in range(200)]
    plan = {"id": "hot", "phase": "phase", "start": True, "workstreams": [{"id": "hot-w", "tasks": tasks}]}
    scheduling.submit_plan(plan, actor=THE_SYSTEM)
    User.objects.create_user("bench", password=PASSWORD).groups.add(Group.objects.get(name="supervisor"))


def measure(prefix: str, more: int) -> dict[str, Cost]:
    """Adds finished tasks and returns the cost of each page."""
    from django.contrib.auth.models import User
    from django.test import Client

    from statecore.delivery.sinks import counters
    from statecore.storage import triggers

    filled = ("statecore_task", "statecore_event", "statecore_position")
    with triggers.disabled(connection), connection.cursor() as cursor, seed.in_bulk(cursor, *filled):
        seed.fill_histories(cursor, "hot:0", prefix, more, LENGTH, FULL_BODIES)
    counters.reconcile()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get(username="bench"))
    return {name: _cost(client, path) for name, path in PAGES.items()}


def measure_late() -> dict[str, Any]:
    """Makes many tasks late for one reason, and returns the cost of the sweeps and of the pages."""
    from datetime import timedelta

    from django.contrib.auth.models import User
    from django.test import Client

    from statecore.machines.task import Task
    from statecore.operations.incidents import sweep
    from statecore.records import Incident
    from tests.support.plans import insert_copies

    task = Task.objects.get(pk="hot:1")
    Task.objects.filter(pk=task.pk).update(state_entered_at=task.state_entered_at - timedelta(hours=2))
    insert_copies(Task.objects.get(pk=task.pk), LATE - 1)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    sweeps = {}
    for name in ("first sweep, half of them", "second sweep, the others", "sweep without changes"):
        start = time.perf_counter()
        sweep()
        sweeps[name] = time.perf_counter() - start
    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get(username="bench"))
    incident = Incident.objects.get(key="no_worker").pk
    pages = {name: _cost(client, path.format(incident=incident)) for name, path in LATE_PAGES.items()}
    return {"sweeps": sweeps, "pages": pages}


def _cost(client: Any, path: str) -> Cost:
    """Requests a page repeatedly; the first requests fill the caches and are not counted."""
    found = Cost([], [], [], 0)
    for number in range(ROUNDS + 5):
        request = time_request(client, path)
        if number >= 5:
            found.total.append(request.seconds)
            found.process.append(request.process)
            found.database.append(request.database)
            found = found._replace(queries=max(found.queries, request.queries))
    return found


class Request(NamedTuple):
    """Elapsed, process CPU and database seconds of one request, and the number of its queries."""

    seconds: float
    process: float
    database: float
    queries: int


def time_request(client: Any, path: str) -> Request:
    with query_times() as times:
        start, busy = time.perf_counter(), time.process_time()
        answer = client.get(path)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    assert answer.status_code == 200, path  # noqa: S101 - error pages would distort the times
    return Request(seconds, busy, sum(times), len(times))


@contextmanager
def query_times() -> Iterator[list[float]]:
    times: list[float] = []

    def timed(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        start = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            times.append(time.perf_counter() - start)

    with connection.execute_wrapper(timed):
        yield times


# Runs in a browser


def first_load(port: int) -> dict[str, float]:
    """Loads the overview three times on a throttled CPU. Returns the most bytes and the fewest seconds until live."""
    with _browser() as browser:
        state = _logged_in(browser, port)
        loads = [_load(browser, port, state) for _ in range(3)]
    return {"bytes": max(size for size, _seconds in loads), "seconds": min(seconds for _size, seconds in loads)}


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**chromium.options())
        yield browser
        browser.close()


def _logged_in(browser: Any, port: int) -> Any:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/login/")
    page.fill("#id_username", "bench")
    page.fill("#id_password", PASSWORD)
    page.click("button")
    page.wait_for_selector("#freshness")
    state = context.storage_state()
    context.close()
    return state


# The page records the time, because polling it would add load.
NOTE_WHEN_LIVE = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("#freshness[data-state=live]")) return;
  window.liveAfter = performance.now() / 1000;
  observer.disconnect();
}).observe(document, { subtree: true, attributeFilter: ["data-state"] });
"""


def _load(browser: Any, port: int, state: Any) -> tuple[float, float]:
    """Returns bytes and seconds until the scripts have run and both sockets have received a message."""
    context = browser.new_context(storage_state=state)
    context.add_init_script(NOTE_WHEN_LIVE)
    page = context.new_page()
    client = context.new_cdp_session(page)
    sizes: list[float] = []
    client.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    client.send("Network.enable")
    client.send("Emulation.setCPUThrottlingRate", {"rate": THROTTLE})
    page.goto(f"http://127.0.0.1:{port}/", wait_until="commit")
    page.wait_for_load_state("networkidle")
    page.wait_for_selector("#freshness[data-state=live]")
    seconds = page.evaluate("window.liveAfter")
    context.close()
    return sum(sizes), seconds


if __name__ == "__main__":
    main()
