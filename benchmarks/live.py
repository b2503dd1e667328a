"""Measures how soon many sockets hear of a commit, and what an idle one costs: `python -m benchmarks.live`."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks import seed
from benchmarks.listeners import Receipt, opened
from benchmarks.report import Report, Target
from benchmarks.sequencer import ROOT, running, wait_until_it_has_caught_up
from benchmarks.support import Environ, environ, once, postgres, processes

RESULTS = Path(__file__).parent / "results"
LOOK = 0.1


def main() -> None:
    options = _options()
    report = Report({name: getattr(options, name) for name in ("sockets", "boards", "rate", "seconds", "idle")})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database:
            settings = environ(base / "home", database("live"), "settings")
            once(settings, seed.prepare, 1, 1, 1)
            token = once(settings, make_token)
            with running(base / "home", settings), web(settings) as (process, port):
                once(settings, wait_until_it_has_caught_up, 60.0)
                # First: what the others have left in its memory would be used again.
                measure_memory(report, options.idle, token, process.pid, port)
                measure_latency(report, settings, options, token, process.pid, port)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if options.write:
        report.write(RESULTS, "live", "Live, measured")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--sockets", type=int, default=500, help="that hear of each event (500)")
    parser.add_argument("--boards", type=int, default=500, help="that hear of the counts (500)")
    parser.add_argument("--rate", type=int, default=100, help="events a second, committed one by one (100)")
    parser.add_argument("--seconds", type=int, default=60, help="how long (60)")
    parser.add_argument("--idle", type=int, default=500, help="sockets of each kind opened to see what one costs (500)")
    parser.add_argument("--write", action="store_true", help="write results/live.md and .json")
    return parser.parse_args()


def make_token() -> str:
    from django.contrib.auth.models import User

    from statecore.records import token

    return token.make("bench", User.objects.create_superuser("bench"), "read")[1]


@contextmanager
def web(settings: Environ) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The web server as scripts/up starts it."""
    from statecore.project.commands import WEB

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, *WEB[1:], "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **settings})
    try:
        _wait_for(port)
        yield process, port
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the web server does not answer")


def measure_latency(
    report: Report, settings: Environ, options: argparse.Namespace, token: str, web: int, port: int
) -> None:
    here, there = processes.Pipe()
    count = options.rate * options.seconds
    listening = processes.Process(
        target=_listen_in_a_process, args=(there, options.sockets, options.boards, count, token, port)
    )
    listening.start()
    first = here.recv()  # all have heard hello
    before = _worked(web), _worked(listening.pid)
    committed = once(settings, write, count, 1 / options.rate)
    web_worked, listeners_worked = _worked(web) - before[0], _worked(listening.pid) - before[1]
    receipts, boards = here.recv()
    listening.join()
    lags = _lags(receipts, dict(enumerate(committed, first + 1)))
    in_order = sum(_follow_each_other(each, first, count) for each in receipts)
    took = committed[-1] - committed[0]
    found = {
        "events a second": count / took,
        "receipts": len(lags),
        "sockets that heard all in order": float(in_order),
        "frames for a socket a second": sum(map(len, receipts)) / len(receipts) / took,
        "frames for a board a second": sum(boards) / len(boards) / took if boards else 0.0,
        "commit to receipt p50 (ms)": lags[len(lags) // 2],
        "commit to receipt p99 (ms)": lags[int(len(lags) * 0.99)],
        "commit to receipt at most (ms)": lags[-1],
        "of a core, the web server (%)": web_worked / took * 100,
        "of a core, the listeners (%)": listeners_worked / took * 100,
    }
    lines = [("what", "measured"), *((name, f"{value:,.1f}") for name, value in found.items())]
    all_in_order = len(lags) if in_order == options.sockets else 0
    targets = [
        Target("receipts, all of them in order", options.sockets * count, all_in_order),
        Target("commit to receipt p99 in ms", 500, found["commit to receipt p99 (ms)"], at_most=True),
    ]
    report.add(f"{options.sockets} sockets for events and {options.boards} for the board", lines, found, targets)


def _lags(receipts: list[list[Receipt]], committed: dict[int, float]) -> list[float]:
    """From each commit to each receipt, in milliseconds, the shortest first."""
    return sorted(
        (receipt.at - committed[position]) * 1000
        for of_socket in receipts
        for receipt in of_socket
        for position in range(receipt.since, receipt.until + 1)
    )


def _worked(pid: int | None) -> float:
    """Seconds of processor time."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _follow_each_other(receipts: list[Receipt], first: int, count: int) -> bool:
    ends = [first, *(receipt.until for receipt in receipts)]
    return ends[-1] == first + count and all(receipt.since == end + 1 for receipt, end in zip(receipts, ends))  # noqa: B905


def write(count: int, pause: float) -> list[float]:
    """When each event was committed."""
    from statecore import door
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.uet_worker import UetWorker

    pk = UetWorker.objects.filter(state="IDLE").values_list("pk", flat=True)[0]
    committed, begun = [], time.monotonic()
    for number in range(count):
        trigger = "task_completed" if number % 2 else "task_assigned"
        outcome = door.transition(UetWorker, pk, trigger, actor=THE_SYSTEM)
        assert outcome.entry  # noqa: S101 - a refusal would not be heard of
        committed.append(time.time())
        time.sleep(max(0.0, begun + (number + 1) * pause - time.monotonic()))
    return committed


def _listen_in_a_process(pipe: Any, sockets: int, boards: int, events: int, token: str, port: int) -> None:
    pipe.send(asyncio.run(_listen(pipe, sockets, boards, events, token, port)))


async def _listen(
    pipe: Any, sockets: int, boards: int, events: int, token: str, port: int
) -> tuple[list[list[Receipt]], list[int]]:
    """What each socket was told, and how many frames each board was sent."""
    watching = [await opened(port, token, "board") for _ in range(boards)]
    listeners = [await opened(port, token) for _ in range(sockets)]
    first = listeners[0].first.result()["position"]
    pipe.send(first)
    async with asyncio.timeout(300):
        while not all(listener.has_heard(first + events) for listener in listeners):
            await asyncio.sleep(LOOK)
    return [listener.receipts for listener in listeners], [board.frames for board in watching]


def measure_memory(report: Report, count: int, token: str, pid: int, port: int) -> None:
    """All stay open until the last was weighed: what one leaves behind would be used again."""
    none, events, boards = asyncio.run(_weigh(count, token, pid, port))
    each = {
        "an idle socket (kB)": (events - none) / count,
        "an idle socket for the board (kB)": (boards - events) / count,
    }
    found = {"resident before (MB)": none / 1024, "with all open (MB)": boards / 1024, **each}
    lines = [("what", "measured"), *((name, f"{value:,.1f}") for name, value in found.items())]
    targets = [Target(name.replace("(kB)", "in kB"), 60, size, at_most=True) for name, size in each.items()]
    report.add(f"{count} idle sockets for events and as many for the board", lines, found, targets)


async def _weigh(count: int, token: str, pid: int, port: int) -> list[float]:
    """What is resident without them, with those for events, and with those for the board as well."""
    # What the first ones bring with them is not the price of the others.
    listeners = [await opened(port, token, what) for what in ("events", "board")]
    sizes = [_resident(pid)]
    for what in ("events", "board"):
        listeners += [await opened(port, token, what) for _ in range(count)]
        sizes.append(_resident(pid))
    for listener in listeners:
        listener.transport.close()
    return sizes


def _resident(pid: int) -> float:
    return psutil.Process(pid).memory_info().rss / 1024


if __name__ == "__main__":
    main()
