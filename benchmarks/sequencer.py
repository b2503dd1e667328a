"""Measures the sequencer with all sinks while transitions are written: `python -m benchmarks.sequencer`."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import seed
from benchmarks.report import Report, Target
from benchmarks.support import Environ, environ, postgres, processes, run_in_process

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
BATCH_SECONDS = 0.02  # each transaction writes the events of this interval
POLL_SECONDS = 0.005
ROUNDING = 0.999


def main() -> None:
    options = _options()
    report = Report({"seconds": options.seconds, "sinks": "all", "writer": "one process, batch transitions"})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database:
            settings = environ(base / "home", database("sequencer"), "settings")
            run_in_process(settings, seed.prepare, 1, 1, int(max(options.rates) * BATCH_SECONDS) + 1)
            with running(base / "home", settings):
                run_in_process(settings, wait_until_delivered, 60.0)
                for rate in options.rates:
                    measure(report, settings, rate, options.seconds)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if options.write:
        report.write(RESULTS, "sequencer", "Sequencer benchmark")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sequencer", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="duration per rate (default 30)")
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 5_000], help="events per second")
    parser.add_argument("--write", action="store_true", help="write results/sequencer.md and .json")
    return parser.parse_args()


@contextmanager
def running(home: Path, settings: Environ, *, with_sequencer: bool = True) -> Iterator[None]:
    """Runs Redis and the sequencer command like scripts/up does."""
    from statecore.project import redis_server, redis_url

    home.mkdir(parents=True, exist_ok=True)
    sequencer = [[sys.executable, "manage.py", "sequencer"]] if with_sequencer else []
    commands = [redis_server.command(redis_url.socket_path(home)), *sequencer]
    started = [subprocess.Popen(command, cwd=ROOT, env={**os.environ, **settings}) for command in commands]
    try:
        yield
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)


def measure(report: Report, settings: Environ, rate: int, seconds: float) -> None:
    here, there = processes.Pipe()
    watcher = processes.Process(target=_watch, args=(there, settings))
    watcher.start()
    here.recv()  # the watcher is ready
    before, written, took = run_in_process(settings, write, rate, seconds)
    drained = run_in_process(settings, wait_until_delivered, 120.0)
    here.send(None)
    observations = here.recv()
    watcher.join()
    lags = run_in_process(settings, compute_lags, before, observations)
    found = {
        "events written per second": written / took,
        "seconds until the last event was delivered": drained,
        "lag p50 (ms)": lags[len(lags) // 2] * 1000,
        "lag p99 (ms)": lags[int(len(lags) * 0.99)] * 1000,
        "lag max (ms)": lags[-1] * 1000,
    }
    lines = [("what", "measured"), *((name, f"{value:,.2f}") for name, value in found.items())]
    targets = [Target(f"events per second at a rate of {rate:,}", ROUNDING * rate, written / took)]
    if rate <= 1_000:
        targets.append(Target(f"lag p99 in ms at {rate:,} events/s", 250, found["lag p99 (ms)"], at_most=True))
    else:
        targets.append(Target(f"seconds behind at the end of {rate:,} events/s", 1, drained, at_most=True))
    report.add(f"{rate:,} events per second for {seconds:.0f} s", lines, found, targets)


def write(rate: int, seconds: float) -> tuple[int, int, float]:
    """Writes events at the given rate. Returns the events before, the events written and the seconds it took.

    Workers alternate between two states. Late batches are caught up with; if that fails, the run takes longer.
    """
    from statecore import transitions
    from statecore.journal import Event
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.uet_worker import UetWorker

    size = int(rate * BATCH_SECONDS)
    ids = list(UetWorker.objects.filter(state="IDLE", pk__startswith="uet_").values_list("pk", flat=True)[:size])
    total = math.ceil(rate * seconds / size) * size
    before, start, written = Event.objects.count(), time.perf_counter(), 0
    while written < total:
        # Each batch starts at its scheduled time; late batches follow immediately.
        if (early := start + written / rate - time.perf_counter()) > 0:
            time.sleep(early)
        trigger = "task_completed" if written // size % 2 else "task_assigned"
        items = transitions.transition_many(UetWorker, ids, trigger, actor=THE_SYSTEM)
        assert all(item.outcome for item in items)  # noqa: S101 - refusals would distort the rate
        written += size
    return before, written, max(time.perf_counter() - start, written / rate)


def wait_until_delivered(patience: float) -> float:
    """Waits until every sink has processed every event. Returns the seconds it took."""
    from statecore.journal import Event

    total, start = Event.objects.count(), time.perf_counter()
    while _delivered() < total:
        if time.perf_counter() - start > patience:
            raise RuntimeError(f"{_delivered()} of {total} events were delivered in {patience} seconds")
        time.sleep(POLL_SECONDS)
    return time.perf_counter() - start


def _delivered() -> int:
    """Returns the lowest position of all sinks."""
    from statecore.delivery.sinks import create_sinks
    from statecore.records import SinkCursor

    positions = list(SinkCursor.objects.values_list("position", flat=True))
    return min(positions) if len(positions) == len(create_sinks()) else 0


def _watch(pipe: Any, settings: Environ) -> None:
    from benchmarks.support import _set_up

    _set_up(settings)
    observations = [(_delivered(), time.time())]
    pipe.send(None)
    while not pipe.poll(POLL_SECONDS):
        if (position := _delivered()) > observations[-1][0]:
            observations.append((position, time.time()))
    pipe.send(observations)


def compute_lags(before: int, observations: list[tuple[int, float]]) -> list[float]:
    """Returns the sorted lags, from an event's timestamp (before its commit) until all sinks were past it."""
    from statecore.journal import Position

    positions = [position for position, _at in observations]
    later = Position.objects.filter(position__gt=before).values_list("position", "event__timestamp")
    return sorted(
        observations[bisect_left(positions, position)][1] - moment.timestamp()
        for position, moment in later.iterator()
        if position <= positions[-1]
    )


if __name__ == "__main__":
    main()
