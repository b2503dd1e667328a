"""Measures the door against raw SQL and its peers: `python -m benchmarks.door`."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import growth, moves, seed, verify
from benchmarks.moves import Plan, Result
from benchmarks.report import Lines, Report, Target
from benchmarks.support import Clients, environ, once, postgres

RESULTS = Path(__file__).parent / "results"
SECTIONS = ("moves", "sqlite", "batch", "verify", "growth")
Database = Callable[[str], str]


def main() -> None:
    options = _options()
    report = Report({"quick": options.quick, "rows": options.rows, "clients": f"{Plan(1, 1).clients} processes"})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database:
            for name in options.only:
                globals()[f"measure_{name}"](report, base, database, options)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if not options.quick and tuple(options.only) == SECTIONS:
        report.write(RESULTS, "door", "The door, measured")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.door", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a first impression in about a minute of a quiet machine; writes nothing"
    )
    parser.add_argument("--rows", type=int, help="rows of the large database (1,000,000; quick: 20,000)")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="some sections only")
    options = parser.parse_args()
    options.rows = options.rows or (20_000 if options.quick else 1_000_000)
    return options


def _compared(result: Result, references: dict[str, str]) -> Lines:
    """Each contender's rate, and its ratio to the raw one of the same rows."""
    lines: Lines = [("contender", "moves/s", "ratio to raw")]
    for name in result.rates:
        ratio = result.ratio(name, references.get(name, next(iter(result.rates))))
        lines.append((name, f"{result.rate(name):,.0f}", f"{ratio:.2f}"))
    return lines


def measure_moves(report: Report, base: Path, database: Database, options: Any) -> None:
    plan = Plan(rounds=4, moves=10, warm_up=1) if options.quick else Plan(rounds=25, moves=40)
    result = moves.measure(base / "home", database("moves"), plan, moves.SINGLE)
    lines = _compared(result, {"door uet_worker": "raw uet_worker"})
    targets = [
        Target("one move, door to raw", 0.5, result.ratio("door", "raw")),
        Target("one move, door to django-fsm-log", 1.6, result.ratio("door", "django-fsm-log")),
    ]
    report.add("One move at a time, PostgreSQL", lines, result.rates, targets)


def measure_sqlite(report: Report, base: Path, database: Database, options: Any) -> None:
    for clients, title in ((8, "eight clients"), (1, "one client")):
        plan = Plan(rounds=4, moves=10, clients=clients, warm_up=1)
        if not options.quick:
            plan = Plan(rounds=20, moves=25 if clients > 1 else 100, clients=clients)
        result = moves.measure(base / "home", f"sqlite:///{base}/{clients}.sqlite3", plan, moves.ON_SQLITE)
        ratio = result.ratio("door", "django-fsm-log")
        target = Target(f"one move on SQLite, {title}, door to django-fsm-log", 2, ratio)
        report.add(f"One move at a time, SQLite, {title}", _compared(result, {}), result.rates, [target])


def measure_batch(report: Report, base: Path, database: Database, options: Any) -> None:
    plan = Plan(rounds=3 if options.quick else 20, moves=1_000, clients=1, warm_up=1 if options.quick else 3)
    result = moves.measure(base / "home", database("batch"), plan, moves.BATCH)
    target = Target("a batch of 1,000, door to raw", 0.5, result.ratio("door batch", "raw batch"))
    report.add("A batch of 1,000, PostgreSQL", _compared(result, {}), result.rates, [target])


def measure_verify(report: Report, base: Path, database: Database, options: Any) -> None:
    settings = environ(base / "home", database("journal"), "settings")
    once(settings, seed.migrate)
    entities, each, rounds = (20, 100, 3) if options.quick else (500, 200, 7)
    with Clients(1, settings) as clients:
        found = verify.measure(lambda name, share: clients.ask(name, [share])[1][0], entities, each, rounds)
    units = list(found["verify_chain"])
    lines: Lines = [("way", *(f"events/s, {unit}" for unit in units))]
    lines += [(way, *(f"{sample[unit]:,.0f}" for unit in units)) for way, sample in found.items()]
    speed = found["verify_chain"]
    targets = [
        Target("events verified per second of the verifying process's core", 200_000, speed["here"]),
        Target("the same, the server's time added to it", 200_000, speed["here and in the server"]),
    ]
    report.add("Verifying the journal, PostgreSQL", lines, found, targets)


def measure_growth(report: Report, base: Path, database: Database, options: Any) -> None:
    plan = Plan(rounds=5, moves=10, warm_up=2) if options.quick else Plan(rounds=20, moves=25, warm_up=6)
    found = growth.measure(base, database, plan, options.rows)
    lines: Lines = [("what", f"{options.rows:,} rows to {growth.SMALL:,}")]
    lines += [(f"time of a move, {name}", f"{found.time(name):.2f}") for name in found.rates]
    lines += [(f"memory, {where}", f"{found.space(where):.2f}") for where in found.memory[0]]
    targets = [
        Target("time of a move, large to small", 1.3, found.time("door"), at_most=True),
        Target("memory of a move, large to small", 1.3, found.space("client"), at_most=True),
        Target("memory of its connection, large to small", 1.3, found.space("server"), at_most=True),
    ]
    report.add("Growth, PostgreSQL", lines, {"rates": found.rates, "memory": found.memory}, targets)


if __name__ == "__main__":
    main()
