"""Measures commit-to-receipt latency of many sockets and the memory per idle socket: `python -m benchmarks.live`."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
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
from benchmarks.http_clients import free_port, wait_for
from benchmarks.listeners import Receipt, connect
from benchmarks.report import Report, Target
from benchmarks.sequencer import ROOT, running, wait_until_delivered
from benchmarks.support import Environ, environ, postgres, processes, run_in_process

RESULTS = Path(__file__).parent / "results"
POLL_SECONDS = 0.1


def main() -> None:
    options = _options()
    report = Report({name: getattr(options, name) for name in ("sockets", "boards", "rate", "seconds", "idle")})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database:
            settings = environ(base / "home", database("live"), "settings")
            run_in_process(settings, seed.prepare, 1, 1, 1)
            token = run_in_process(settings, make_token)
            with running(base / "home", settings), web(settings) as (process, port):
                run_in_process(settings, wait_until_delivered, 60.0)
                # Memory first: freed memory of the latency run would be reused.
                measure_memory(report, options.idle, token, process.pid, port)
                measure_latency(report, settings, options, token, process.pid, port)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if options.write:
        report.write(RESULTS, "live", "Live stream benchmark")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--sockets", type=int, default=500, help="event sockets (default 500)")
    parser.add_argument("--boards", type=int, default=500, help="board sockets (default 500)")
    parser.add_argument("--rate", type=int, default=100, help="events per second, one commit each (default 100)")
    parser.add_argument("--seconds", type=int, default=60, help="duration (default 60)")
    parser.add_argument(
        "--idle", type=int, default=500, help="idle sockets of each kind for the memory measurement (default 500)"
    )
    parser.add_argument("--write", action="store_true", help="write results/live.md and .json")
    return parser.parse_args()


def make_token() -> str:
    from django.contrib.auth.models import User

    from statecore.records import token

    return token.make("bench-reader", User.objects.create_superuser("bench"), "read")[1]


@contextmanager
def web(settings: Environ) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Runs the web server like scripts/up does."""
    from statecore.project.commands import WEB

    port = free_port()
    command = [sys.executable, *WEB[1:], "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "STATECORE_STREAMS_PER_ACCOUNT": "5000", **settings}
    )
    try:
        wait_for(("127.0.0.1", port), process)
        yield process, port
    finally:
        process.terminate()
        process.wait(30)


def measure_latency(
    report: Report, settings: Environ, options: argparse.Namespace, token: str, web: int, port: int
) -> None:
    here, there = processes.Pipe()
    count = options.rate * options.seconds
    listening = processes.Process(
        target=_run_listeners, args=(there, options.sockets, options.boards, count, token, port)
    )
    listening.start()
    there.close()  # so that a failed listener ends the run
    first = here.recv()  # all sockets are connected
    before = _cpu_seconds(web), _cpu_seconds(listening.pid)
    committed = run_in_process(settings, write, count, 1 / options.rate)
    web_cpu, client_cpu = _cpu_seconds(web) - before[0], _cpu_seconds(listening.pid) - before[1]
    receipts, boards = here.recv()
    listening.join()
    lags = _lags(receipts, dict(enumerate(committed, first + 1)))
    in_order = sum(_are_consecutive(each, first, count) for each in receipts)
    took = committed[-1] - committed[0]
    found = {
        "events per second": count / took,
        "events received": len(lags),
        "sockets that received all events in order": float(in_order),
        "frames per event socket per second": sum(map(len, receipts)) / len(receipts) / took,
        "frames per board socket per second": sum(boards) / len(boards) / took if boards else 0.0,
        "commit to receipt p50 (ms)": lags[len(lags) // 2],
        "commit to receipt p99 (ms)": lags[int(len(lags) * 0.99)],
        "commit to receipt max (ms)": lags[-1],
        "web server CPU (% of a core)": web_cpu / took * 100,
        "client CPU (% of a core)": client_cpu / took * 100,
    }
    lines = [("what", "measured"), *((name, f"{value:,.1f}") for name, value in found.items())]
    all_in_order = len(lags) if in_order == options.sockets else 0
    targets = [
        Target("events received, all in order", options.sockets * count, all_in_order),
        Target("commit to receipt p99 in ms", 500, found["commit to receipt p99 (ms)"], at_most=True),
    ]
    report.add(f"{options.sockets} event sockets and {options.boards} board sockets", lines, found, targets)


def _lags(receipts: list[list[Receipt]], committed: dict[int, float]) -> list[float]:
    """Returns the milliseconds from each commit to each receipt, sorted."""
    return sorted(
        (receipt.at - committed[position]) * 1000
        for of_socket in receipts
        for receipt in of_socket
        for position in range(receipt.since, receipt.until + 1)
    )


def _cpu_seconds(pid: int | None) -> float:
    """Returns the CPU time of a process."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _are_consecutive(receipts: list[Receipt], first: int, count: int) -> bool:
    ends = [first, *(receipt.until for receipt in receipts)]
    return ends[-1] == first + count and all(receipt.since == end + 1 for receipt, end in zip(receipts, ends))  # noqa: B905


def write(count: int, pause: float) -> list[float]:
    """Commits events at the given interval. Returns the time of each commit."""
    from statecore import transitions
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.uet_worker import UetWorker

    pk = UetWorker.objects.filter(state="IDLE").values_list("pk", flat=True)[0]
    committed, begun = [], time.monotonic()
    for number in range(count):
        trigger = "task_completed" if number % 2 else "task_assigned"
        outcome = transitions.transition(UetWorker, pk, trigger, actor=THE_SYSTEM)
        assert outcome.entry  # noqa: S101 - a refusal makes no event
        committed.append(time.time())
        time.sleep(max(0.0, begun + (number + 1) * pause - time.monotonic()))
    return committed


def _run_listeners(pipe: Any, sockets: int, boards: int, events: int, token: str, port: int) -> None:
    pipe.send(asyncio.run(_listen(pipe, sockets, boards, events, token, port)))


async def _listen(
    pipe: Any, sockets: int, boards: int, events: int, token: str, port: int
) -> tuple[list[list[Receipt]], list[int]]:
    """Returns the receipts of each event socket and the number of frames of each board socket."""
    watching = [await connect(port, token, "board") for _ in range(boards)]
    listeners = [await connect(port, token) for _ in range(sockets)]
    first = listeners[0].first.result()["position"]
    pipe.send(first)
    async with asyncio.timeout(300):
        while not all(listener.has_received(first + events) for listener in listeners):
            await asyncio.sleep(POLL_SECONDS)
    return [listener.receipts for listener in listeners], [board.frames for board in watching]


def measure_memory(report: Report, count: int, token: str, pid: int, port: int) -> None:
    """All sockets stay open until the last measurement, because memory of closed ones would be reused."""
    none, events, boards = asyncio.run(_measure_resident(count, token, pid, port))
    each = {
        "memory per idle event socket (kB)": (events - none) / count,
        "memory per idle board socket (kB)": (boards - events) / count,
    }
    found = {
        "resident memory before (MB)": none / 1024,
        "resident memory with all sockets open (MB)": boards / 1024,
        **each,
    }
    lines = [("what", "measured"), *((name, f"{value:,.1f}") for name, value in found.items())]
    targets = [Target(name.replace("(kB)", "in kB"), 60, size, at_most=True) for name, size in each.items()]
    report.add(f"{count} idle event sockets and {count} idle board sockets", lines, found, targets)


async def _measure_resident(count: int, token: str, pid: int, port: int) -> list[float]:
    """Returns resident memory without sockets, with event sockets, and with board sockets as well."""
    # The first sockets load code once; that is not part of the cost per socket.
    listeners = [await connect(port, token, what) for what in ("events", "board")]
    sizes = [_resident(pid)]
    for what in ("events", "board"):
        listeners += [await connect(port, token, what) for _ in range(count)]
        sizes.append(_resident(pid))
    for listener in listeners:
        listener.transport.close()
    return sizes


def _resident(pid: int) -> float:
    return psutil.Process(pid).memory_info().rss / 1024


if __name__ == "__main__":
    main()
