"""Measures transitions against raw SQL and other libraries: `python -m benchmarks.transition`."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import growth, rounds, seed, verify
from benchmarks.report import Lines, Report, Target
from benchmarks.rounds import Plan, Result
from benchmarks.support import Clients, environ, postgres, run_in_process

RESULTS = Path(__file__).parent / "results"
SECTIONS = ("single", "sqlite", "batch", "verify", "growth")
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
        report.write(RESULTS, "transition", "Transition benchmark")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transition", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds, about a minute on an idle machine; writes no results"
    )
    parser.add_argument("--rows", type=int, help="rows of the large database (default 1,000,000; quick: 20,000)")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="run only these sections")
    options = parser.parse_args()
    options.rows = options.rows or (20_000 if options.quick else 1_000_000)
    return options


def _comparison_table(result: Result, references: dict[str, str]) -> Lines:
    """Returns the table of rates, with each contender's ratio to its raw counterpart."""
    lines: Lines = [("contender", "transitions/s", "ratio to raw")]
    for name in result.rates:
        ratio = result.ratio(name, references.get(name, next(iter(result.rates))))
        lines.append((name, f"{result.rate(name):,.0f}", f"{ratio:.2f}"))
    return lines


def measure_single(report: Report, base: Path, database: Database, options: Any) -> None:
    plan = Plan(rounds=4, transitions=10, warm_up=1) if options.quick else Plan(rounds=25, transitions=40)
    result = rounds.measure(base / "home", database("single"), plan, rounds.SINGLE)
    lines = _comparison_table(result, {"Statecore uet_worker": "raw uet_worker"})
    targets = [
        Target("one transition, Statecore to raw", 0.5, result.ratio("Statecore", "raw")),
        Target("one transition, Statecore to django-fsm-log", 1.6, result.ratio("Statecore", "django-fsm-log")),
    ]
    report.add("One transition at a time, PostgreSQL", lines, result.rates, targets)


def measure_sqlite(report: Report, base: Path, database: Database, options: Any) -> None:
    for clients, title in ((8, "eight clients"), (1, "one client")):
        plan = Plan(rounds=4, transitions=10, clients=clients, warm_up=1)
        if not options.quick:
            plan = Plan(rounds=20, transitions=25 if clients > 1 else 100, clients=clients)
        result = rounds.measure(base / "home", f"sqlite:///{base}/{clients}.sqlite3", plan, rounds.ON_SQLITE)
        ratio = result.ratio("Statecore", "django-fsm-log")
        target = Target(f"one transition on SQLite, {title}, Statecore to django-fsm-log", 2, ratio)
        report.add(f"One transition at a time, SQLite, {title}", _comparison_table(result, {}), result.rates, [target])


def measure_batch(report: Report, base: Path, database: Database, options: Any) -> None:
    plan = Plan(rounds=3 if options.quick else 20, transitions=1_000, clients=1, warm_up=1 if options.quick else 3)
    result = rounds.measure(base / "home", database("batch"), plan, rounds.BATCH)
    target = Target("a batch of 1,000, Statecore to raw", 0.5, result.ratio("Statecore batch", "raw batch"))
    report.add("A batch of 1,000, PostgreSQL", _comparison_table(result, {}), result.rates, [target])


def measure_verify(report: Report, base: Path, database: Database, options: Any) -> None:
    settings = environ(base / "home", database("journal"), "settings")
    run_in_process(settings, seed.migrate)
    entities, each, rounds = (20, 100, 3) if options.quick else (500, 200, 7)
    with Clients(1, settings) as clients:
        found = verify.measure(lambda name, share: clients.run(name, [share])[1][0], entities, each, rounds)
    units = list(found["verify_chain"])
    lines: Lines = [("way", *(f"events/s, {unit}" for unit in units))]
    lines += [(way, *(f"{sample[unit]:,.0f}" for unit in units)) for way, sample in found.items()]
    speed, in_tree = found["verify_chain"], found["verify_tree"]
    targets = [
        Target("events verified per second of process CPU time", 200_000, speed["process CPU"]),
        Target("events verified per second of process and server CPU time", 200_000, speed["process and server CPU"]),
        Target("events compared with the tree per second of process CPU time", 200_000, in_tree["process CPU"]),
    ]
    report.add("Verifying the journal, PostgreSQL", lines, found, targets)


def measure_growth(report: Report, base: Path, database: Database, options: Any) -> None:
    plan = Plan(rounds=5, transitions=10, warm_up=2) if options.quick else Plan(rounds=20, transitions=25, warm_up=6)
    found = growth.measure(base, database, plan, options.rows)
    lines: Lines = [("what", f"{options.rows:,} rows to {growth.SMALL:,}")]
    lines += [(f"time per transition, {name}", f"{found.time_ratio(name):.2f}") for name in found.rates]
    lines += [(f"memory, {where}", f"{found.memory_ratio(where):.2f}") for where in found.memory[0]]
    targets = [
        Target("time per transition, large to small database", 1.3, found.time_ratio("Statecore"), at_most=True),
        Target("memory per transition, large to small database", 1.3, found.memory_ratio("client"), at_most=True),
        Target(
            "memory of the server connection, large to small database", 1.3, found.memory_ratio("server"), at_most=True
        ),
    ]
    report.add("Growth, PostgreSQL", lines, {"rates": found.rates, "memory": found.memory}, targets)


if __name__ == "__main__":
    main()
