"""The crowd: who is in it, how it starts, and how it ends without leaving anything in anybody's hands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from time import monotonic
from typing import Protocol

from django.conf import settings
from django.db import connections

from ..kernel.actors import THE_SYSTEM
from . import names
from .agent import Agent
from .chores import Chores
from .desk import Desk
from .neighbours import Neighbourhood
from .operators import Operator
from .report import Report
from .supply import Supply
from .sweeper import Sweeper

OTHERS = 3  # beside the agents: supply, operator, neighbours
LONGEST_BACK_OFF = 4  # seconds


@dataclass(frozen=True)
class Wishes:
    """What a simulation is to be like; without `seconds` and `runs` it goes on until it is stopped."""

    agents: int = 20
    rate: float = 50.0
    seed: int = 1
    seconds: float | None = None
    runs: int | None = None
    failures: float = 0.1
    neighbours: int = 8
    beside_real_work: bool = False

    @property
    def timeout_sec(self) -> int:
        """A second or two; more where the pace gives each of the crowd its turn so seldom."""
        return ceil(1 + 2 * (self.agents + OTHERS) / self.rate)


class Member(Protocol):
    def live(self) -> None: ...


class Crowd:
    def __init__(self, wishes: Wishes) -> None:
        if not wishes.beside_real_work:
            names.refuse_real_work()
        self.wishes = wishes
        self.desk = Desk(names.reserve(wishes.seed), wishes.rate, wishes.failures)
        self.operator = Operator(self.desk)
        self.supply = Supply(
            self.desk, agents=wishes.agents, rate=wishes.rate, runs=wishes.runs, timeout_sec=wishes.timeout_sec
        )
        self.failed: list[Exception] = []
        self.began = monotonic()

    def stop(self) -> None:
        self.desk.stop.set()

    def run(self, tell: Callable[[Report], None]) -> Report:
        """Live until the end that was wished for; `tell` hears every second how far it is."""
        self.began = monotonic()
        with quick_retries():
            threads = [threading.Thread(target=self._live, args=(member,)) for member in self._members()]
            for thread in threads:
                thread.start()
            try:
                self._watch(tell)
            finally:
                self.stop()
                report = self.report()
                for thread in threads:
                    thread.join()
        if self.failed:
            raise self.failed[0]
        self._clear_up()
        self.supply.watch()
        return report.closed(self.desk.tally)

    def _members(self) -> list[Member]:
        agents = [Agent(self.desk, number) for number in range(1, self.wishes.agents + 1)]
        neighbours = [Neighbourhood(self.desk, self.wishes.neighbours)] if self.wishes.neighbours else []
        return [*agents, *neighbours, self.operator, self.supply, Sweeper(self.desk)]

    def _live(self, member: Member) -> None:
        """One thread, with a connection of its own; what escapes from one ends the life of all."""
        try:
            member.live()
        except Exception as error:  # noqa: BLE001 - raised again by the thread that started them all
            self.failed.append(error)
            self.stop()
        finally:
            connections.close_all()

    def _watch(self, tell: Callable[[Report], None]) -> None:
        while not self.desk.stop.wait(self._until_the_next_line()):
            tell(self.report())
            if self.wishes.seconds is not None and monotonic() - self.began >= self.wishes.seconds:
                return

    def _until_the_next_line(self) -> float:
        left = 1.0 if self.wishes.seconds is None else self.began + self.wishes.seconds - monotonic()
        return min(1.0, max(0.0, left))

    def report(self) -> Report:
        share = self.desk.tally.seconds_at_the_door / max(monotonic() - self.began, 0.001)
        threads = self.wishes.agents + OTHERS
        return Report(
            self.desk.names.label,
            self.wishes.rate,
            monotonic() - self.began,
            share / threads,
            self.desk.tally.as_dict(),
        )

    def _clear_up(self) -> None:
        """What the agents cannot leave behind by themselves: the dead, unfinished runs, gates, patches on their way."""
        self.operator.bury()
        for run_id in sorted(self.desk.runs):
            self.operator.cancel(run_id, "the simulation has ended")
        chores = Chores(self.desk, self.desk.names.random("clearing up"), THE_SYSTEM, failures=0.0)
        while chores.do_one():
            pass


@contextmanager
def quick_retries() -> Iterator[None]:
    """A short back-off for what fails in this process; the settings of the installation stay as they are."""
    base, cap = settings.STATECORE_RETRY_BASE_SECONDS, settings.STATECORE_RETRY_CAP_SECONDS
    settings.STATECORE_RETRY_BASE_SECONDS, settings.STATECORE_RETRY_CAP_SECONDS = 1, min(cap, LONGEST_BACK_OFF)
    try:
        yield
    finally:
        settings.STATECORE_RETRY_BASE_SECONDS, settings.STATECORE_RETRY_CAP_SECONDS = base, cap
