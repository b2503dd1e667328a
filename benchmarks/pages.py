"""What the console's pages cost at two sizes of the tables, what a first load weighs, and when it can be used.

python -m benchmarks.pages [--quick] [--tasks N]
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

from benchmarks import seed
from benchmarks.live import web
from benchmarks.report import Lines, Report, Target
from benchmarks.sequencer import running
from benchmarks.support import environ, once, postgres
from tests.support import chromium

RESULTS = Path(__file__).parent / "results"
LENGTH = 5  # events of each task
WHOLE = 1_000  # first and last tasks whose events have whole bodies: no page shows any other's
SMALL = 20  # the tables are measured first at this part of their size
ROUNDS = 60
PASSWORD = "only for the benchmark"  # noqa: S105 - of a database that is deleted at the end
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
    "stuck": "/stuck/",
}
HEADLINE = ("overview", "machine", "entity")
WANTED_MS, WANTED_QUERIES, WANTED_GROWTH = 60, 12, 1.5
WANTED_BYTES, WANTED_SECONDS, THROTTLE = 250_000, 1.0, 4


class Cost(NamedTuple):
    """Seconds of each request by the clock and of this process, those in the database, and the most questions."""

    total: list[float]
    process: list[float]
    database: list[float]
    queries: int

    def at(self, share: float) -> float:
        return sorted(self.total)[int(len(self.total) * share)] * 1e3

    @property
    def own(self) -> float:
        return median(self.process) * 1e3

    @property
    def raw(self) -> float:
        return median(self.database) * 1e3


def main() -> None:
    options = _options()
    report = Report(
        {
            "quick": options.quick,
            "tasks": options.tasks,
            "events": options.tasks * LENGTH,
            "whole bodies": 4 * WHOLE * LENGTH,
        }
    )
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg", log="2GB") as database:
            settings = environ(base / "home", database("pages"), "settings")
            once(settings, prepare)
            before = once(settings, measure, "done", options.tasks // SMALL)
            after = once(settings, measure, "more", options.tasks - options.tasks // SMALL)
            _report_pages(report, before, after)
            with running(base / "home", settings, with_sequencer=False), web(settings) as (_process, port):
                _report_first_load(report, first_load(port))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if not options.quick:
        report.write(RESULTS, "pages", "Pages, measured")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a first impression; writes nothing")
    parser.add_argument("--tasks", type=int, help="finished tasks, with five events each (10,000,000)")
    options = parser.parse_args()
    options.tasks = options.tasks or (200_000 if options.quick else 10_000_000)
    return options


def _report_pages(report: Report, before: dict[str, Cost], after: dict[str, Cost]) -> None:
    lines: Lines = [("page", "p50 ms", "p95 ms", "process ms", "database ms", "queries", f"p50 to that at 1/{SMALL}")]
    for name, cost in after.items():
        growth = cost.at(0.5) / before[name].at(0.5)
        shares = (f"{cost.at(0.5):.1f}", f"{cost.at(0.95):.1f}", f"{cost.own:.1f}", f"{cost.raw:.1f}")
        lines.append((name, *shares, str(cost.queries), f"{growth:.2f}"))
    headline = [after[name] for name in HEADLINE]
    slowest_growth = max(after[name].at(0.5) / before[name].at(0.5) for name in HEADLINE)
    targets = [
        Target("p95 of overview, machine and entity in ms", WANTED_MS, max(c.at(0.95) for c in headline), at_most=True),
        Target("queries for a page", WANTED_QUERIES, max(cost.queries for cost in headline), at_most=True),
        Target("p50 at full size to that at a small one", WANTED_GROWTH, slowest_growth, at_most=True),
    ]
    tasks = report.options["tasks"]
    samples = {name: cost._asdict() for name, cost in after.items()}
    report.add(f"Pages at {tasks:,} tasks and {tasks * LENGTH:,} events", lines, samples, targets)


def _report_first_load(report: Report, found: dict[str, float]) -> None:
    lines: Lines = [
        ("overview, nothing cached", "measured"),
        *((name, f"{value:,.2f}") for name, value in found.items()),
    ]
    targets = [
        Target("bytes of the first load", WANTED_BYTES, found["bytes"], at_most=True),
        Target(
            f"seconds until it can be used, {THROTTLE} times slower", WANTED_SECONDS, found["seconds"], at_most=True
        ),
    ]
    report.add("The first load", lines, found, targets)


# In a process of its own, under Django


def prepare() -> None:
    """A plan that waits for workers, and somebody who may see it."""
    from django.contrib.auth.models import Group, User

    from statecore import scheduling
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.records import Phase

    seed.migrate()
    Phase.objects.create(id="phase")
    tasks = [{"id": f"hot:{number}"} for number in range(200)]
    plan = {"id": "hot", "phase": "phase", "start": True, "workstreams": [{"id": "hot-w", "tasks": tasks}]}
    scheduling.submit(plan, actor=THE_SYSTEM)
    User.objects.create_user("bench", password=PASSWORD).groups.add(Group.objects.get(name="supervisor"))


def measure(prefix: str, more: int) -> dict[str, Cost]:
    """What each page costs once so many more tasks have ended."""
    from django.contrib.auth.models import User
    from django.test import Client

    from statecore.kernel import triggers
    from statecore.sinks import counters

    filled = ("statecore_task", "statecore_event", "statecore_position")
    with triggers.lowered(connection), connection.cursor() as cursor, seed.in_bulk(cursor, *filled):
        seed.fill_histories(cursor, "hot:0", prefix, more, LENGTH, WHOLE)
    counters.reconcile()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get(username="bench"))
    return {name: _cost(client, path) for name, path in PAGES.items()}


def _cost(client: Any, path: str) -> Cost:
    """Each page again and again; the first times fill the caches of the process and of the database."""
    found = Cost([], [], [], 0)
    for number in range(ROUNDS + 5):
        with _asked() as times:
            start, busy = time.perf_counter(), time.process_time()
            answer = client.get(path)
            seconds, busy = time.perf_counter() - start, time.process_time() - busy
        assert answer.status_code == 200, path  # noqa: S101 - a refusal would be fast and wrong
        if number >= 5:
            found.total.append(seconds)
            found.process.append(busy)
            found.database.append(sum(times))
            found = found._replace(queries=max(found.queries, len(times)))
    return found


@contextmanager
def _asked() -> Iterator[list[float]]:
    times: list[float] = []

    def timed(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        start = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            times.append(time.perf_counter() - start)

    with connection.execute_wrapper(timed):
        yield times


# In a browser


def first_load(port: int) -> dict[str, float]:
    """Of the overview: what comes over the wire, and when it is live, on a slow processor. The best of three."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**chromium.options())
        state = _logged_in(browser, port)
        loads = [_load(browser, port, state) for _ in range(3)]
        browser.close()
    return {"bytes": max(size for size, _seconds in loads), "seconds": min(seconds for _size, seconds in loads)}


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


# The page itself notes when it is; whoever asks it again and again would be a load of its own.
NOTE_WHEN_LIVE = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("#freshness[data-state=live]")) return;
  window.liveAfter = performance.now() / 1000;
  observer.disconnect();
}).observe(document, { subtree: true, attributeFilter: ["data-state"] });
"""


def _load(browser: Any, port: int, state: Any) -> tuple[float, float]:
    """Usable is when the scripts have run and both sockets have spoken: from then on it answers to keys and clicks."""
    context = browser.new_context(storage_state=state)
    context.add_init_script(NOTE_WHEN_LIVE)
    page = context.new_page()
    client = context.new_cdp_session(page)
    sizes: list[float] = []
    client.on("Network.loadingFinished", lambda told: sizes.append(told["encodedDataLength"]))
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
