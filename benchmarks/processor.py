"""Measures the processor time of client and server for each transition: `python -m benchmarks.processor`.

Other load on the machine affects it less than rates, so it shows in minutes whether a change to the write path pays.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from django.db import connection

from benchmarks import seed
from benchmarks.rounds import Plan, Rows
from benchmarks.support import Clients, environ, postgres, run_in_process

SINGLE, BATCH = ("raw", "Statecore"), ("raw batch", "Statecore batch")
SIZES = {SINGLE: 20, BATCH: 1_000}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.processor", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="rounds of 20 transitions; a tenth of them of batches")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database:
            for names, rounds in ((SINGLE, options.rounds), (BATCH, max(3, options.rounds // 10))):
                plan = Plan(rounds=rounds, transitions=SIZES[names], clients=1, warm_up=2)
                settings = environ(base / "home", database(names[0].replace(" ", "_")), "settings")
                run_in_process(settings, seed.prepare, plan.total, 1, 1)
                _report(names, _measure(names, plan, settings))
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _measure(names: Sequence[str], plan: Plan, settings: dict[str, str]) -> dict[str, list[tuple[float, float]]]:
    """Returns the microseconds of client and server for each transition, by contender and round."""
    rows, found = Rows(plan), {name: list[tuple[float, float]]() for name in names}
    with Clients(1, settings) as clients:
        for number in range(plan.warm_up + plan.rounds):
            for name in names:
                (share,) = rows.shares(name)
                _elapsed, ((client, server),) = clients.run("processor time", [(name, share)])
                if number >= plan.warm_up:
                    found[name].append((client / len(share), server / len(share)))
    return found


def _report(names: Sequence[str], found: dict[str, list[tuple[float, float]]]) -> None:
    raw, ours = (found[name] for name in names)
    for name in names:
        client, server = (median(column) for column in zip(*found[name], strict=True))
        print(f"{name:16} client {client:6.1f} us, server {server:6.1f} us")
    ratios = [sum(those) / sum(these) for these, those in zip(ours, raw, strict=True)]
    print(f"{names[0]} to {names[1]}: {median(ratios):.3f}\n", flush=True)


def measure_share(share: tuple[str, Sequence[Any]]) -> tuple[float, float]:
    """Runs a contender and returns the microseconds that this process and its server process took."""
    from benchmarks.contenders import contender

    name, ids = share
    run, pid = contender(name), _find_server_process(name)
    server, client = _server_time(pid), time.thread_time()
    run(ids)
    return (time.thread_time() - client) * 1e6, _server_time(pid) - server


def _find_server_process(name: str) -> int:
    from benchmarks import raw

    connection.ensure_connection()
    session = raw.session().connection if name.startswith("raw") else connection.connection
    return int(session.info.backend_pid)


def _server_time(pid: int) -> float:
    """Returns the microseconds of processor time, which /proc has in nanoseconds only here."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1000


if __name__ == "__main__":
    main()
