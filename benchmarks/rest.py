"""Measures transitions and heartbeats over REST against a raw WSGI application and Prefect.

python -m benchmarks.rest [--quick] [--without-prefect]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles

from benchmarks import prefect_peer
from benchmarks.http_clients import Address, Request, free_port, post, wait_for
from benchmarks.report import Lines, Report, Target
from benchmarks.support import Environ, environ, postgres, ratio, run_in_process

RESULTS = Path(__file__).parent / "results"
CLIENTS = 16
# Prefect gets a quarter of the requests; otherwise it would take most of the time.
PREFECT_DIVISOR = 4
BODY = b'{"trigger": "analyze"}'


def main() -> None:
    options = _options()
    report = Report(
        {
            "quick": options.quick,
            "clients": CLIENTS,
            "rounds": options.rounds,
            "requests per client and round": options.each,
        }
    )
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database, ExitStack() as stack:
            settings = environ(base / "home", database("rest"), "settings")
            address = stack.enter_context(redis(base / "redis.sock"))
            token = run_in_process(settings, prepare, options)
            given = {**settings, "REDIS_URL": address}
            statecore = stack.enter_context(server("statecore.project.wsgi:application", given))
            raw = stack.enter_context(server("benchmarks.rest_raw:application", given))
            calls = Calls({"raw": raw, "transition": statecore, "heartbeat": statecore}, options)
            if options.prefect:
                peer = stack.enter_context(prefect_peer.server(base / "prefect", database("prefect")))
                calls.add_prefect(peer)
            _measure(report, calls, token, options)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if not options.quick:
        report.write(RESULTS, "rest", "REST benchmark")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rest", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds; writes no results")
    parser.add_argument("--without-prefect", dest="prefect", action="store_false", help="skip Prefect")
    options = parser.parse_args()
    options.rounds, options.each = (4, 16) if options.quick else (20, 40)
    return options


def prepare(options: argparse.Namespace) -> str:
    """Creates the rows for all rounds, held by the agent of the token. Returns a token."""
    from django.db import connection

    from benchmarks import seed
    from benchmarks.rest_raw import TABLES
    from statecore import transitions
    from statecore.machines.pipeline_job import PipelineJob
    from statecore.machines.worker import Worker
    from statecore.records.token import Token

    seed.migrate()
    text = create_operator_token()
    agent = Token.objects.get().as_agent()
    for name in _rows(options):
        transitions.create(PipelineJob, id=name, actor=agent)
    for number in range(CLIENTS):
        transitions.create(Worker, id=f"w{number}", actor=agent)
        transitions.transition(Worker, f"w{number}", "registration_completed", actor=agent)
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        cursor.execute("INSERT INTO raw_row (id, state) SELECT id, 'new' FROM statecore_pipelinejob")
        cursor.execute("ANALYZE")
    return text


def create_operator_token() -> str:
    """The owner gets its permissions from a group, like most token owners."""
    from django.contrib.auth.models import Group, User

    from statecore.records import token as tokens

    user = User.objects.create_user("bench")
    user.groups.add(Group.objects.get(name="operator"))
    _token, text = tokens.make("bench-agent", user, "agent")
    return text


def _rows(options: argparse.Namespace) -> list[str]:
    count = (options.rounds + 1) * CLIENTS * options.each
    return [f"j{number}" for number in range(count)]


class Calls:
    """The address of each contender and its requests per round."""

    def __init__(self, addresses: dict[str, Address], options: argparse.Namespace) -> None:
        self.addresses, self.each = addresses, options.each
        self.rounds = options.rounds + 1  # the first round is a warm-up
        self.rows = _rows(options)
        self.runs: list[str] = []

    def add_prefect(self, address: Address) -> None:
        self.addresses["Prefect"] = address
        self.runs = prefect_peer.runs(address, self.rounds * CLIENTS * (self.each // PREFECT_DIVISOR))

    def requests_for(self, name: str, number: int) -> list[list[Request]]:
        """Returns one list of requests per client."""
        if name == "heartbeat":
            return [[(f"/api/v1/workers/w{client}/heartbeat/", b"{}")] * self.each for client in range(CLIENTS)]
        ids, make = (
            (self.runs, prefect_peer.set_state_requests) if name == "Prefect" else (self.rows, _transition_requests)
        )
        share = len(ids) // self.rounds
        ids = ids[number * share : (number + 1) * share]
        return [make(ids[client::CLIENTS]) for client in range(CLIENTS)]


def _measure(report: Report, calls: Calls, token: str, options: argparse.Namespace) -> None:
    rates: dict[str, list[float]] = {name: [] for name in calls.addresses}
    took: dict[str, list[float]] = {name: [] for name in rates}
    for number in range(calls.rounds):
        for name, address in calls.addresses.items():
            requests = calls.requests_for(name, number)
            seconds, each = post(address, token, requests)
            if number:
                rates[name].append(sum(map(len, requests)) / seconds)
                took[name] += each
    _report(report, rates, took)


def _transition_requests(ids: list[str]) -> list[Request]:
    return [(f"/api/v1/pipeline-jobs/{each}/transitions/", BODY) for each in ids]


def _report(report: Report, rates: dict[str, list[float]], took: dict[str, list[float]]) -> None:
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
        wait_for(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    main()
