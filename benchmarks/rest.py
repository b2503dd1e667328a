"""REST: a transition and a heartbeat by 16 keep-alive clients against one WSGI process, beside the raw limit.

python -m benchmarks.rest [--quick]
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

from benchmarks.http_clients import Request, post
from benchmarks.report import Lines, Report, Target
from benchmarks.support import Environ, environ, once, postgres, ratio

RESULTS = Path(__file__).parent / "results"
CLIENTS = 16
# Prefect 3's set_state on a machine like ours, measured earlier: it is not among our requirements.
PREFECT = 88.0
BODY = b'{"trigger": "analyze"}'


def main() -> None:
    options = _options()
    report = Report({"quick": options.quick, "clients": CLIENTS, "rounds": options.rounds, "each": options.each})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database, ExitStack() as stack:
            settings = environ(base / "home", database("rest"), "settings")
            redis = stack.enter_context(_redis(base / "redis.sock"))
            token = once(settings, prepare, options)
            given = {**settings, "REDIS_URL": redis}
            ours = stack.enter_context(_server("statecore.project.wsgi:application", given))
            raw = stack.enter_context(_server("benchmarks.rest_raw:application", given))
            _measure(report, ours, raw, token, options)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if not options.quick:
        report.write(RESULTS, "rest", "REST, measured")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rest", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a first impression; writes nothing")
    options = parser.parse_args()
    options.rounds, options.each = (4, 15) if options.quick else (20, 40)
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
    from statecore.records import token as tokens

    seed.migrate()
    _token, text = tokens.make("bench", _operator("bench"), "agent")
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


def _operator(name: str) -> Any:
    """As most who own tokens are: of a group, and no superuser."""
    from django.contrib.auth.models import Group, User

    user = User.objects.create_user(name)
    user.groups.add(Group.objects.get(name="operator"))
    return user


def _rows(options: argparse.Namespace) -> list[str]:
    count = (options.rounds + 1) * CLIENTS * options.each
    return [f"j{number}" for number in range(count)]


def _measure(
    report: Report, ours: tuple[str, int], raw: tuple[str, int], token: str, options: argparse.Namespace
) -> None:
    rates: dict[str, list[float]] = {"raw": [], "transition": [], "heartbeat": []}
    took: dict[str, list[float]] = {name: [] for name in rates}
    rows = _rows(options)
    for number in range(options.rounds + 1):
        share = rows[number * CLIENTS * options.each : (number + 1) * CLIENTS * options.each]
        moves = [_moves(share[client::CLIENTS]) for client in range(CLIENTS)]
        beats = [[(f"/api/v1/workers/w{client}/heartbeat/", b"{}")] * options.each for client in range(CLIENTS)]
        for name, address, requests in (("raw", raw, moves), ("transition", ours, moves), ("heartbeat", ours, beats)):
            seconds, each = post(address, token, requests)
            if number:  # the first round warms up
                rates[name].append(CLIENTS * options.each / seconds)
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
        Target("transition, to Prefect as measured earlier", 8, median(rates["transition"]) / PREFECT),
        Target("transition, p99 in ms", 60, worst["transition"], at_most=True),
        Target("heartbeat, to transition", 2, ratio(rates["heartbeat"], rates["transition"])),
    ]
    report.add("16 clients, one WSGI process, PostgreSQL", lines, rates, targets)


@contextmanager
def _redis(path: Path) -> Iterator[str]:
    from statecore.project import redis_server

    process = subprocess.Popen(redis_server.command(path), stdout=subprocess.DEVNULL)
    try:
        yield f"unix://{path}"
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def _server(application: str, given: Environ) -> Iterator[tuple[str, int]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = listener.getsockname()
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
