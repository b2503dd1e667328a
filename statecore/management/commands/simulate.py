"""Lets a crowd of simulated agents live through the real doors."""

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

from statecore.machines.task import Task
from statecore.simulation import Crowd, NameTaken, RealWork, Report, Wishes

BESIDE = "begin although real tasks wait; it ends as soon as an agent is given one, which is handed back as failed"
ASK = "let real tasks ask for a capability that simulated agents lack"


def number(kind: type[int | float], least: float, most: float) -> Callable[[str], float]:
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
def quiet() -> Iterator[None]:
    """Without a line in the log for each sweep and each refused override, between ours."""
    logger = logging.getLogger("statecore")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


class Command(BaseCommand):
    help = "Simulated agents, an operator and the other machines, at a given rate, until Ctrl-C or the end wished for."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--agents", type=number(int, 1, 500), default=20, help="how many work at once")
        parser.add_argument("--rate", type=number(float, 0.1, 100_000), default=50.0, help="moves a second, of all")
        parser.add_argument("--seed", type=number(int, 0, 10**9), help="the same seed makes the same plans and choices")
        parser.add_argument("--seconds", type=number(float, 0, 10**9), help="end after this time")
        parser.add_argument("--runs", type=number(int, 1, 10**9), help="end when so many runs have ended")
        parser.add_argument("--failures", type=number(float, 0, 1), default=0.1, help="share of what goes wrong")
        parser.add_argument("--neighbours", type=number(int, 0, 1000), default=8, help="other machines moving at once")
        parser.add_argument("--beside-real-work", action="store_true", help=BESIDE)
        parser.add_argument("--json", action="store_true", help="a line of JSON each second, the summary at the end")

    def handle(self, *args: Any, **options: Any) -> None:
        if Task._meta.db_table not in connection.introspection.table_names():
            raise CommandError("this database is empty: scripts/up or manage.py migrate makes its tables.")
        seed = secrets.randbelow(10**6) if options["seed"] is None else options["seed"]
        chosen = ("agents", "rate", "seconds", "runs", "failures", "neighbours", "beside_real_work")
        try:
            crowd = Crowd(Wishes(seed=seed, **{name: options[name] for name in chosen}))
            with nullcontext() if options["verbosity"] > 1 else quiet():
                report = self._run(crowd, self._teller(as_json=options["json"]))
        except RealWork as refused:
            other = ASK if options["beside_real_work"] else "--beside-real-work"
            raise CommandError(f"{refused}; use a database of its own, or {other}.") from refused
        except NameTaken as refused:
            raise CommandError(f"{refused}.") from refused
        self.stdout.write(json.dumps(report.as_dict()) if options["json"] else report.summary())

    def _run(self, crowd: Crowd, tell: Callable[[Report], None]) -> Report:
        """The first signal ends it in good order; a second one is not waited for."""

        def on_signal(signum: int, frame: object) -> None:
            crowd.stop()
            for each in before:
                signal.signal(each, signal.SIG_DFL)

        before = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            return crowd.run(tell)
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _teller(self, *, as_json: bool) -> Callable[[Report], None]:
        def tell(report: Report) -> None:
            self.stdout.write(json.dumps(report.as_dict()) if as_json else report.line())
            self.stdout.flush()

        return tell if as_json or self.stdout.isatty() else lambda report: None
