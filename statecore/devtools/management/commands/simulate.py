"""Runs simulated agents against the installation."""

from __future__ import annotations

import json
import logging
import secrets
import signal
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from statecore.devtools.simulation import Options, RealWorkFound, Report, Simulation, UsernameTaken
from statecore.machines.task import Task

BESIDE = "start even if real tasks are waiting; ends when an agent claims one, which is reported as failed"
REQUIRE_CAPABILITY = "let real tasks require a capability that simulated agents lack"


def number_in(kind: type[int | float], least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            given = kind(text)
        except ValueError:
            given = kind(-1)
        if not least <= given <= most:
            raise ArgumentTypeError(f"{text!r} is not a number from {least:g} to {most:g}")
        return given

    return read


@contextmanager
def reduced_logging() -> Iterator[None]:
    """Suppresses log lines of sweeps and refused overrides between progress lines."""
    logger = logging.getLogger("statecore")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


class Command(BaseCommand):
    help = "Run simulated agents, an operator and other machines at a given rate, until Ctrl-C, --seconds or --runs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--agents", type=number_in(int, 1, 500), default=20, help="number of agents")
        parser.add_argument(
            "--rate", type=number_in(float, 0.1, 100_000), default=50.0, help="transitions per second in total"
        )
        parser.add_argument(
            "--seed", type=number_in(int, 0, 10**9), help="repeats plans and choices; random by default"
        )
        parser.add_argument("--seconds", type=number_in(float, 0, 10**9), help="stop after this time")
        parser.add_argument("--runs", type=number_in(int, 1, 10**9), help="stop when this many runs have ended")
        parser.add_argument("--failures", type=number_in(float, 0, 1), default=0.1, help="share of attempts that fail")
        parser.add_argument(
            "--other-machines", type=number_in(int, 0, 1000), default=8, help="active entities of other machines"
        )
        parser.add_argument("--beside-real-work", action="store_true", help=BESIDE)
        parser.add_argument("--json", action="store_true", help="print a JSON line every second and a summary")

    def handle(self, *args: Any, **options: Any) -> None:
        if Task._meta.db_table not in connection.introspection.table_names():
            raise CommandError("this database is empty: run scripts/up or manage.py migrate first.")
        seed = secrets.randbelow(10**6) if options["seed"] is None else options["seed"]
        chosen = ("agents", "rate", "seconds", "runs", "failures", "other_machines", "beside_real_work")
        try:
            simulation = Simulation(Options(seed=seed, **{name: options[name] for name in chosen}))
            with nullcontext() if options["verbosity"] > 1 else reduced_logging():
                report = self._run(simulation, self._progress_printer(as_json=options["json"]))
        except RealWorkFound as refused:
            alternative = REQUIRE_CAPABILITY if options["beside_real_work"] else "--beside-real-work"
            raise CommandError(f"{refused}; use a separate database, or {alternative}.") from refused
        except UsernameTaken as refused:
            raise CommandError(f"{refused}.") from refused
        self.stdout.write(json.dumps(report.as_dict()) if options["json"] else report.summary())

    def _run(self, simulation: Simulation, on_progress: Callable[[Report], None]) -> Report:
        """The first signal stops the simulation cleanly, the second one kills it."""

        def on_signal(signum: int, frame: object) -> None:
            simulation.stop()
            for each in before:
                signal.signal(each, signal.SIG_DFL)

        before = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            return simulation.run(on_progress)
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _progress_printer(self, *, as_json: bool) -> Callable[[Report], None]:
        def print_progress(report: Report) -> None:
            self.stdout.write(json.dumps(report.as_dict()) if as_json else report.line())
            self.stdout.flush()

        return print_progress if as_json or self.stdout.isatty() else lambda report: None
