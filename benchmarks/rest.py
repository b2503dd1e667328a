"""REST: a transition and a heartbeat by 16 keep-alive clients against one process, beside the raw limit and Prefect.

python -m benchmarks.rest [--quick] [--without-prefect]
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks import rest_peer
from benchmarks.http_clients import Address, Request, free_port, post
from benchmarks.report import Lines, Report, Target
from benchmarks.support import Environ, environ, once, postgres, ratio

RESULTS = Path(__file__).parent / "results"
CLIENTS = 16
# Of Prefect a part of the calls of the others: it would take most of the time.
PART = 4
BODY = b'{"trigger": "analyze"}'


def main() -> None:
    options = _options()
    report = Report({"quick": options.quick, "clients": CLIENTS, "rounds": options.rounds, "each": options.each})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database, ExitStack() as stack:
            settings = environ(base / "home", database("rest"), "settings")
            address = stack.enter_context(redis(base / "redis.sock"))
            token = once(settings, prepare, options)
            given = {**settings, "REDIS_URL": address}
            ours = stack.enter_context(server("statecore.project.wsgi:application", given))
            raw = stack.enter_context(server("benchmarks.rest_raw:application", given))
            calls = Calls({"raw": raw, "transition": ours, "heartbeat": ours}, options)
            if options.prefect:
                peer = stack.enter_context(rest_peer.server(base / "prefect", database("prefect")))
                calls.add_prefect(peer)
            _measure(report, calls, token, options)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if not options.quick:
        report.write(RESULTS, "rest", "REST, measured")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rest", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a first impression; writes nothing")
    parser.add_argument("--without-prefect", dest="prefect", action="store_false", help="without the peer")
    options = parser.parse_args()
    options.rounds, options.each = (4, 16) if options.quick else (20, 40)
    return options


def prepare(options: argparse.Namespace) -> str:
    """Enough rows for every round, and a token to call with."""
    from django.db import connection

    from benchmarks import seed
    from benchmarks.rest_raw import TABLES
    from statecore import door
    from statecore.kernel.actors import Actor
    from statecore.machines.pipeline_job import PipelineJob
    from statecore.machines.worker import Worker

    seed.migrate()
    text = token_of_an_operator()
    agent = Actor.agent("bench")
    for name in _rows(options):
        door.create(PipelineJob, id=name, actor=agent)
    for number in range(CLIENTS):
        door.create(Worker, id=f"w{number}", actor=agent)
        door.transition(Worker, f"w{number}", "registration_completed", actor=agent)
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        cursor.execute("INSERT INTO raw_row (id, state) SELECT id, 'new' FROM statecore_pipelinejob")
        cursor.execute("ANALYZE")
    return text


def token_of_an_operator() -> str:
    """The owner is as most who own tokens are: of a group, and no superuser."""
    from django.contrib.auth.models import Group, User

    from statecore.records import token as tokens

    user = User.objects.create_user("bench")
    user.groups.add(Group.objects.get(name="operator"))
    _token, text = tokens.make("bench", user, "agent")
    return text


def _rows(options: argparse.Namespace) -> list[str]:
    count = (options.rounds + 1) * CLIENTS * options.each
    return [f"j{number}" for number in range(count)]


class Calls:
    """Who is called where, and with what in each round."""

    def __init__(self, addresses: dict[str, Address], options: argparse.Namespace) -> None:
        self.addresses, self.each = addresses, options.each
        self.rounds = options.rounds + 1  # the first one warms up
        self.rows = _rows(options)
        self.runs: list[str] = []

    def add_prefect(self, address: Address) -> None:
        self.addresses["Prefect"] = address
        self.runs = rest_peer.runs(address, self.rounds * CLIENTS * (self.each // PART))

    def of(self, name: str, number: int) -> list[list[Request]]:
        """One list for each client."""
        if name == "heartbeat":
            return [[(f"/api/v1/workers/w{client}/heartbeat/", b"{}")] * self.each for client in range(CLIENTS)]
        ids, make = (self.runs, rest_peer.moves) if name == "Prefect" else (self.rows, _moves)
        share = len(ids) // self.rounds
        ids = ids[number * share : (number + 1) * share]
        return [make(ids[client::CLIENTS]) for client in range(CLIENTS)]


def _measure(report: Report, calls: Calls, token: str, options: argparse.Namespace) -> None:
    rates: dict[str, list[float]] = {name: [] for name in calls.addresses}
    took: dict[str, list[float]] = {name: [] for name in rates}
    for number in range(calls.rounds):
        for name, address in calls.addresses.items():
            requests = calls.of(name, number)
            seconds, each = post(address, token, requests)
            if number:
                rates[name].append(sum(map(len, requests)) / seconds)
                took[name] += each
    _tell(report, rates, took)


def _moves(ids: list[str]) -> list[Request]:
    return [(f"/api/v1/pipeline-jobs/{each}/transitions/", BODY) for each in ids]


def _tell(report: Report, rates: dict[str, list[float]], took: dict[str, list[float]]) -> None:
    worst = {name: quantiles(each, n=100)[98] * 1000 for name, each in took.items()}
    lines: Lines = [("call", "requests/s", "ratio to raw", "p99 ms")]
    for name, found in rates.items():
        lines.append((name, f"{median(found):,.0f}", f"{ratio(found, rates['raw']):.2f}", f"{worst[name]:.1f}"))
    targets = [
        Target("transition, p99 in ms", 60, worst["transition"], at_most=True),
        Target("heartbeat, to transition", 2, ratio(rates["heartbeat"], rates["transition"])),
    ]
    if "Prefect" in rates:
        targets.insert(0, Target("transition, to Prefect's set_state", 8, ratio(rates["transition"], rates["Prefect"])))
    report.add("16 clients, one process, PostgreSQL", lines, rates, targets)


@contextmanager
def redis(path: Path) -> Iterator[str]:
    from statecore.project import redis_server

    process = subprocess.Popen(redis_server.command(path), stdout=subprocess.DEVNULL)
    try:
        yield f"unix://{path}"
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def server(application: str, given: Environ) -> Iterator[Address]:
    address = ("127.0.0.1", free_port())
    options = ["--interface", "wsgi", "--host", address[0], "--port", str(address[1]), "--blocking-threads", "8"]
    process = subprocess.Popen(
        [sys.executable, "-m", "granian", *options, "--no-ws", "--log-level", "error", application],
        env={**os.environ, **given},
    )
    try:
        _await(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def _await(address: Any, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(address, 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"{process.args!r} does not answer")


if __name__ == "__main__":
    main()
