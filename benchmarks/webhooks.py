"""Measures webhooks: the process that sends them to a receiver on loopback, and bare posts of the same messages.

python -m benchmarks.webhooks [--events N] [--webhooks N ...] [--quick] [--write]
"""

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

from benchmarks.report import Report
from benchmarks.support import Environ, environ, postgres, processes, run_in_process

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PATIENCE_SECONDS, POLL_SECONDS = 300.0, 0.01
COUNT, FIRST, LAST = range(3)
Arrivals = Any  # an array of doubles in shared memory
REPLY = b"HTTP/1.1 204 No Content\r\n\r\n"


def main() -> None:
    options = _options()
    report = Report({"events": options.events, "webhooks": options.webhooks})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database, receiver() as (port, arrivals):
            settings = environ(base / "home", database("webhooks"), "settings")
            settings |= {"STATECORE_WEBHOOK_HTTP": "1", "STATECORE_WEBHOOK_PRIVATE_ADDRESSES": "127.0.0.0/8"}
            run_in_process(settings, prepare, options.events)
            with sending(settings):
                for count in options.webhooks:
                    measure(report, settings, options.events, count, port, arrivals)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if options.write:
        report.write(RESULTS, "webhooks", "Webhook benchmark")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.webhooks", description=__doc__)
    parser.add_argument("--events", type=int, default=5_000, help="events that each webhook sends (default 5,000)")
    parser.add_argument("--webhooks", type=int, nargs="+", default=[1, 8], help="webhooks at once (default 1 and 8)")
    parser.add_argument("--quick", action="store_true", help="500 events")
    parser.add_argument("--write", action="store_true", help="write results/webhooks.md and .json")
    options = parser.parse_args()
    options.events = 500 if options.quick else options.events
    return options


def prepare(events: int) -> None:
    """Creates the events and gives them positions."""
    from django.contrib.auth.models import User

    from benchmarks import seed
    from statecore import transitions
    from statecore.delivery.sequencer import Sequencer
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.machines.uet_worker import UetWorker

    seed.migrate()
    User.objects.create_superuser("bench")
    for number in range(events):
        transitions.create(UetWorker, actor=THE_SYSTEM, id=f"worker{number}", worker_type="bench")
    sequencer = Sequencer(())
    sequencer.leadership.acquire()
    sequencer.take_over()
    while sequencer.run_round():
        pass


def subscribe(count: int, port: int) -> tuple[list[dict[str, str]], bytes]:
    """Lets webhooks begin with the first event; returns the headers and the body of the first message."""
    from django.contrib.auth.models import User

    from statecore.delivery.webhooks.messages import build_event_message, sign
    from statecore.kernel.clock import now
    from statecore.read_models import history
    from statecore.read_models.history import Filters
    from statecore.records import webhook as records

    records.Webhook.objects.all().delete()
    owner, first = User.objects.get(), history.read_page(Filters(), limit=1).events[0]
    made = [
        records.create(f"http://127.0.0.1:{port}/{number}", created_by="bench", owner_id=owner.pk)[0]
        for number in range(count)
    ]
    records.Webhook.objects.update(position=0)
    message = build_event_message(made[0], first, 1)
    return [sign(message, now(), each.read_secrets(now())) for each in made], message.body


@contextmanager
def sending(settings: Environ) -> Iterator[None]:
    """Runs the process that sends webhooks as scripts/up does."""
    process = subprocess.Popen([sys.executable, "manage.py", "webhooks"], cwd=ROOT, env={**os.environ, **settings})
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def measure(report: Report, settings: Environ, events: int, count: int, port: int, arrivals: Arrivals) -> None:
    headers, body = run_in_process(settings, subscribe, count, port)
    delivered = _wait(arrivals, events * count)
    asyncio.run(_post_all(port, headers, body, events))
    raw = _wait(arrivals, events * count)
    found = {
        "deliveries per second": delivered,
        "bare posts with httpx per second, signed once": raw,
        "share of the bare posts": delivered / raw,
    }
    lines = [("what", "measured"), *((name, f"{value:,.2f}") for name, value in found.items())]
    report.add(f"{count} webhooks at once, {events:,} events each", lines, found, [])


def _wait(arrivals: Arrivals, count: int) -> float:
    """Waits until the receiver has this many messages; returns how many came per second, and starts a new count."""
    patience = time.monotonic() + PATIENCE_SECONDS
    while arrivals[COUNT] < count:
        if time.monotonic() > patience:
            raise RuntimeError(f"{arrivals[COUNT]:.0f} of {count} messages arrived")
        time.sleep(POLL_SECONDS)
    rate = float((count - 1) / (arrivals[LAST] - arrivals[FIRST]))
    arrivals[COUNT] = 0
    return rate


async def _post_all(port: int, headers: list[dict[str, str]], body: bytes, events: int) -> None:
    """Posts the same message over one connection for each webhook."""
    await asyncio.gather(*(_post(port, number, each, body, events) for number, each in enumerate(headers)))


async def _post(port: int, number: int, headers: dict[str, str], body: bytes, events: int) -> None:
    import httpx

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers) as client:
        for _ in range(events):
            (await client.post(f"/{number}", content=body)).raise_for_status()


# The receiver answers at once, and keeps how many messages came and when the first and the last one.


@contextmanager
def receiver() -> Iterator[tuple[int, Arrivals]]:
    here, there = processes.Pipe()
    arrivals = processes.Array("d", 3, lock=False)
    process = processes.Process(target=_receive, args=(there, arrivals), daemon=True)
    process.start()
    try:
        yield here.recv(), arrivals
    finally:
        process.terminate()
        process.join()


def _receive(pipe: Any, arrivals: Arrivals) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode().lower():
                await reader.readexactly(int(head.partition("content-length:")[2].partition("\r\n")[0]))
                arrivals[LAST] = time.perf_counter()
                arrivals[FIRST] = arrivals[FIRST] if arrivals[COUNT] else arrivals[LAST]
                arrivals[COUNT] += 1
                writer.write(REPLY)
        except asyncio.IncompleteReadError:
            writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
