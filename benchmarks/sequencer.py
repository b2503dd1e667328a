"""Measures the sequencer with every sink on, while the door writes: `python -m benchmarks.sequencer`."""

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
from benchmarks.support import Environ, environ, once, postgres, processes

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
BEAT = 0.02  # the writer makes this many seconds' worth of events in one transaction
LOOK = 0.005
ROUNDING = 0.999


def main() -> None:
    options = _options()
    report = Report({"seconds": options.seconds, "sinks": "all", "writer": "one process, the batch door"})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database:
            settings = environ(base / "home", database("sequencer"), "settings")
            once(settings, seed.prepare, 1, 1, int(max(options.rates) * BEAT) + 1)
            with running(base / "home", settings):
                once(settings, wait_until_it_has_caught_up, 60.0)
                for rate in options.rates:
                    measure(report, settings, rate, options.seconds)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if options.write:
        report.write(RESULTS, "sequencer", "The sequencer, measured")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sequencer", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long each rate is kept up (30)")
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 5_000], help="events per second")
    parser.add_argument("--write", action="store_true", help="write results/sequencer.md and .json")
    return parser.parse_args()


@contextmanager
def running(home: Path, settings: Environ, *, with_sequencer: bool = True) -> Iterator[None]:
    """A real Redis and the real command, as scripts/up starts them."""
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
    watcher = processes.Process(target=_watch_in_a_process, args=(there, settings))
    watcher.start()
    here.recv()  # it watches
    before, written, took = once(settings, write, rate, seconds)
    drained = once(settings, wait_until_it_has_caught_up, 120.0)
    here.send(None)
    looks = here.recv()
    watcher.join()
    lags = once(settings, lags_of, before, looks)
    found = {
        "written per second": written / took,
        "seconds until the last was delivered": drained,
        "lag p50 (ms)": lags[len(lags) // 2] * 1000,
        "lag p99 (ms)": lags[int(len(lags) * 0.99)] * 1000,
        "lag max (ms)": lags[-1] * 1000,
    }
    lines = [("what", "measured"), *((name, f"{value:,.2f}") for name, value in found.items())]
    targets = [Target(f"events per second at a wanted {rate:,}", ROUNDING * rate, written / took)]
    if rate <= 1_000:
        targets.append(Target(f"lag p99 in ms at {rate:,} events/s", 250, found["lag p99 (ms)"], at_most=True))
    else:
        targets.append(Target(f"seconds behind at the end of {rate:,} events/s", 1, drained, at_most=True))
    report.add(f"{rate:,} events per second for {seconds:.0f} s", lines, found, targets)


def write(rate: int, seconds: float) -> tuple[int, int, float]:
    """Workers go to and fro, a beat's worth in one transaction; how many events, and in how many seconds.

    All of them are written: who was late has to catch up, and takes longer if it cannot.
    """
    from statecore import door
    from statecore.journal import Event
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.uet_worker import UetWorker

    size = int(rate * BEAT)
    ids = list(UetWorker.objects.filter(state="IDLE", pk__startswith="uet_").values_list("pk", flat=True)[:size])
    total = math.ceil(rate * seconds / size) * size
    before, start, written = Event.objects.count(), time.perf_counter(), 0
    while written < total:
        # Each portion when its time begins; one that is late, and all that are late with it, at once.
        if (early := start + written / rate - time.perf_counter()) > 0:
            time.sleep(early)
        trigger = "task_completed" if written // size % 2 else "task_assigned"
        items = door.transition_many(UetWorker, ids, trigger, actor=THE_SYSTEM)
        assert all(item.outcome for item in items)  # noqa: S101 - a refusal would be fast and wrong
        written += size
    return before, written, max(time.perf_counter() - start, written / rate)


def wait_until_it_has_caught_up(patience: float) -> float:
    """Until every sink has had every event; the seconds it took."""
    from statecore.journal import Event

    total, start = Event.objects.count(), time.perf_counter()
    while _delivered() < total:
        if time.perf_counter() - start > patience:
            raise RuntimeError(f"{_delivered()} of {total} events were delivered in {patience} seconds")
        time.sleep(LOOK)
    return time.perf_counter() - start


def _delivered() -> int:
    """Up to where every sink has come."""
    from statecore.records import SinkCursor
    from statecore.sinks import all_sinks

    places = list(SinkCursor.objects.values_list("position", flat=True))
    return min(places) if len(places) == len(all_sinks()) else 0


def _watch_in_a_process(pipe: Any, settings: Environ) -> None:
    from benchmarks.support import _set_up

    _set_up(settings)
    looks = [(_delivered(), time.time())]
    pipe.send(None)
    while not pipe.poll(LOOK):
        if (place := _delivered()) > looks[-1][0]:
            looks.append((place, time.time()))
    pipe.send(looks)


def lags_of(before: int, looks: list[tuple[int, float]]) -> list[float]:
    """From the time an event tells, which is before its commit, to the first look that saw it with every sink."""
    from statecore.records import Position

    places = [place for place, _at in looks]
    later = Position.objects.filter(position__gt=before).values_list("position", "event__timestamp")
    return sorted(
        looks[bisect_left(places, position)][1] - moment.timestamp()
        for position, moment in later.iterator()
        if position <= places[-1]
    )


if __name__ == "__main__":
    main()
