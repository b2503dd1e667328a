"""Measures the pages of runs of different sizes: processor time in a browser until usable, memory, and server time."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks import run_seed
from benchmarks.report import Lines, Report, Target

SIZES = (100, 2_000, 10_000)
LOADS = 3
WANTED_SECONDS, WANTED_HEAP = 1.0, 30.0
WANTED_GROWTH = 1.0  # MB of memory after the whole timeline was scrolled and the run replayed
THROTTLE = 4
PAGES = {
    "graph and timeline": "/runs/{run}/",
    "parts": "/runs/{run}/parts/",
    "journal": "/runs/{run}/journal/",
    "tasks": "/runs/{run}/tasks/",
    "tasks, by queue wait": "/runs/{run}/tasks/?sort=-wait",
    "compared": "/runs/{run}/compare/",
}
# Scrolls through the whole timeline and replays the run, twice as fast as an operator could.
USE = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const [gantt, slider] = ["gantt", "time"].map((id) => document.getElementById(id));
  for (let step = 0; step <= 100; step += 1) {
    gantt.scrollTop = (gantt.scrollHeight * step) / 100;
    await frame();
  }
  for (let step = 0; step <= 100; step += 1) {
    slider.value = step * 10;
    slider.dispatchEvent(new Event("input"));
    await frame();
  }
}"""


def run_id(size: int) -> str:
    return f"run-of-{size}"


def prepare() -> None:
    for size in SIZES:
        run_seed.create_run(run_id(size), size)


def measure_server() -> dict[str, dict[str, tuple[float, float, int]]]:
    """Median and largest milliseconds, and queries, by size and page. Nothing is cached between requests."""
    from django.contrib.auth.models import User
    from django.core.cache import cache
    from django.test import Client

    from benchmarks.pages import time_request

    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get(username="bench"))
    found: dict[str, dict[str, tuple[float, float, int]]] = {}
    for size in SIZES:
        for name, path in PAGES.items():
            costs = []
            for _ in range(7):
                cache.clear()
                client.force_login(User.objects.get(username="bench"))
                costs.append(time_request(client, path.format(run=run_id(size))))
            seconds = [cost.seconds for cost in costs[2:]]
            numbers = (median(seconds) * 1e3, max(seconds) * 1e3, max(cost.queries for cost in costs))
            found.setdefault(name, {})[str(size)] = numbers
    return found


def measure_browser(browser: Any, port: int, state: Any) -> dict[str, dict[str, float]]:
    return {str(size): _best([_load(browser, port, state, run_id(size)) for _ in range(LOADS)]) for size in SIZES}


def _best(loads: list[dict[str, float]]) -> dict[str, float]:
    """Other processes only add to what a load takes."""
    return {name: min(load[name] for load in loads) for name in loads[0]}


def _load(browser: Any, port: int, state: Any, run: str) -> dict[str, float]:
    context = browser.new_context(storage_state=state, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    client = context.new_cdp_session(page)
    sizes: list[float] = []
    client.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    client.send("Network.enable")
    client.send("Performance.enable", {"timeDomain": "threadTicks"})
    client.send("Emulation.setCPUThrottlingRate", {"rate": THROTTLE})
    page.goto(f"http://127.0.0.1:{port}/runs/{run}/", wait_until="commit")
    page.wait_for_selector("body[data-ready=yes]", timeout=120_000)
    seconds = _metric(client, "TaskDuration")
    client.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    page.evaluate(USE)  # fills what is created once
    before, nodes = _heap(client), _metric(client, "Nodes")
    page.evaluate(USE)
    found = {"seconds": seconds, "heap": before, "growth": _heap(client) - before, "nodes": nodes}
    context.close()
    return {**found, "bytes": sum(sizes)}


def _heap(client: Any) -> float:
    for _ in range(3):  # finalizers free objects for the next round
        client.send("HeapProfiler.collectGarbage")
    return float(client.send("Runtime.getHeapUsage")["usedSize"]) / 1e6


def _metric(client: Any, name: str) -> float:
    return next(each["value"] for each in client.send("Performance.getMetrics")["metrics"] if each["name"] == name)


def report_runs(report: Report, server: dict[str, Any], browser: dict[str, dict[str, float]]) -> None:
    lines: Lines = [("tasks", f"processor s, slowed {THROTTLE} times", "memory MB", "growth MB", "nodes", "bytes")]
    for size, cost in browser.items():
        numbers = (f"{cost['seconds']:.2f}", f"{cost['heap']:.1f}", f"{cost['growth']:.2f}")
        lines.append((size, *numbers, f"{cost['nodes']:.0f}", f"{cost['bytes']:,.0f}"))
    largest = browser[str(SIZES[-1])]
    targets = [
        Target(
            f"processor seconds until a run of {SIZES[-1]:,} tasks is usable",
            WANTED_SECONDS,
            largest["seconds"],
            at_most=True,
        ),
        Target("MB of memory", WANTED_HEAP, largest["heap"], at_most=True),
        Target("MB more after another replay", WANTED_GROWTH, largest["growth"], at_most=True),
    ]
    report.add("Page of a run in a browser", lines, browser, targets)
    rows: Lines = [("page", "tasks", "p50 ms", "slowest ms", "queries")]
    for name, by_size in server.items():
        for size, (middle, slowest, queries) in by_size.items():
            rows.append((name, size, f"{middle:.1f}", f"{slowest:.1f}", str(queries)))
    report.add("Pages of a run on the server, nothing cached", rows, server, [])
