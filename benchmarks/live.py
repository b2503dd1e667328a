"""Measures how soon a hundred sockets hear of a commit, and what an idle one costs: `python -m benchmarks.live`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import seed
from benchmarks.report import Report, Target
from benchmarks.sequencer import ROOT, running, wait_until_it_has_caught_up
from benchmarks.support import Environ, environ, once, postgres, processes

RESULTS = Path(__file__).parent / "results"
BEAT = 0.3  # longer than the pause between two frames, so that each event could be told at once


def main() -> None:
    options = _options()
    report = Report({"sockets": options.sockets, "events": options.events, "idle sockets": options.idle})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database:
            settings = environ(base / "home", database("live"), "settings")
            once(settings, seed.prepare, 1, 1, 1)
            token = once(settings, make_token)
            with running(base / "home", settings), web(settings) as (process, port):
                once(settings, wait_until_it_has_caught_up, 60.0)
                measure_latency(report, settings, options, token, port)
                measure_memory(report, options.idle, token, process.pid, port)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if options.write:
        report.write(RESULTS, "live", "Live, measured")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--sockets", type=int, default=100, help="that hear of each event (100)")
    parser.add_argument("--events", type=int, default=50, help="committed one by one (50)")
    parser.add_argument("--idle", type=int, default=500, help="sockets opened to see what one costs (500)")
    parser.add_argument("--write", action="store_true", help="write results/live.md and .json")
    return parser.parse_args()


def make_token() -> str:
    from django.contrib.auth.models import User

    from statecore.records import token

    return token.make("bench", User.objects.create_superuser("bench"), "read")[1]


@contextmanager
def web(settings: Environ) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The web server as scripts/up starts it."""
    from statecore.project.supervisor import WEB

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


def measure_latency(report: Report, settings: Environ, options: argparse.Namespace, token: str, port: int) -> None:
    here, there = processes.Pipe()
    listener = processes.Process(
        target=_listen_in_a_process, args=(there, options.sockets, options.events, token, port)
    )
    listener.start()
    here.recv()  # all have heard hello
    committed = once(settings, write, options.events)
    heard: dict[str, list[float]] = here.recv()
    listener.join()
    lags = sorted((at - committed[pk]) * 1000 for pk, moments in heard.items() for at in moments)
    last = sorted((max(moments) - committed[pk]) * 1000 for pk, moments in heard.items())
    found = {
        "receipts": len(lags),
        "commit to receipt p50 (ms)": lags[len(lags) // 2],
        "commit to receipt p99 (ms)": lags[int(len(lags) * 0.99)],
        "until the last socket has it p50 (ms)": last[len(last) // 2],
    }
    lines = [("what", "measured"), *((name, f"{value:,.1f}") for name, value in found.items())]
    targets = [
        Target("receipts", options.sockets * options.events, len(lags)),
        Target("commit to receipt p99 in ms", 500, found["commit to receipt p99 (ms)"], at_most=True),
    ]
    report.add(f"{options.sockets} sockets, one event every {BEAT} s", lines, found, targets)


def write(count: int) -> dict[str, float]:
    """When each event was committed, by its id."""
    from statecore import door
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.uet_worker import UetWorker

    pk = UetWorker.objects.filter(state="IDLE").values_list("pk", flat=True)[0]
    committed = {}
    for number in range(count):
        trigger = "task_completed" if number % 2 else "task_assigned"
        outcome = door.transition(UetWorker, pk, trigger, actor=THE_SYSTEM)
        assert outcome.entry  # noqa: S101 - a refusal would not be heard of
        committed[outcome.entry.event_id] = time.time()
        time.sleep(BEAT)
    return committed


def _listen_in_a_process(pipe: Any, sockets: int, events: int, token: str, port: int) -> None:
    pipe.send(asyncio.run(_listen(pipe, sockets, events, token, port)))


async def _listen(pipe: Any, sockets: int, events: int, token: str, port: int) -> dict[str, list[float]]:
    heard: dict[str, list[float]] = {}

    async def follow(connection: Any) -> None:
        count = 0
        while count < events:
            message = json.loads(await connection.recv())
            at = time.time()
            for each in message.get("events", ()):
                heard.setdefault(each["event"]["event_id"], []).append(at)
                count += 1

    async with AsyncExitStack() as stack:
        opened = [await _open(stack, token, port) for _ in range(sockets)]
        pipe.send(None)
        await asyncio.wait_for(asyncio.gather(*map(follow, opened)), 60 + events * BEAT * 2)
    return heard


async def _open(stack: AsyncExitStack, token: str, port: int) -> Any:
    from websockets.asyncio.client import connect

    connecting = connect(
        f"ws://127.0.0.1:{port}/ws/events/",
        additional_headers={"Authorization": f"Bearer {token}"},
        proxy=None,
        compression=None,
    )
    connection = await stack.enter_async_context(connecting)
    json.loads(await connection.recv())
    return connection


def measure_memory(report: Report, count: int, token: str, pid: int, port: int) -> None:
    async def open_all() -> tuple[float, float]:
        async with AsyncExitStack() as stack:
            await _open(stack, token, port)  # what the first one brings with it is not the price of the others
            before = _resident(pid)
            for _ in range(count):
                await _open(stack, token, port)
            return before, _resident(pid)

    before, after = asyncio.run(open_all())
    each = (after - before) / count
    found = {"resident before (MB)": before / 1024, "with all open (MB)": after / 1024, "an idle socket (kB)": each}
    lines = [("what", "measured"), *((name, f"{value:,.1f}") for name, value in found.items())]
    report.add(f"{count} idle sockets", lines, found, [Target("an idle socket in kB", 100, each, at_most=True)])


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


if __name__ == "__main__":
    main()
