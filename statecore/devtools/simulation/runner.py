"""Runs a simulation: starts a thread for each participant, and finishes all work at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from time import monotonic
from typing import Any, Protocol

from django.conf import settings
from django.db import connections

from ...machines.task import State, Task
from ...scheduling import timers
from . import names
from .agent import SimulatedAgent
from .context import Context
from .gates_and_patches import GatesAndPatches
from .operator import SimulatedOperator
from .other_machines import OtherMachines
from .plans import PlanSubmitter
from .report import Report

OTHER_THREADS = 3  # plan submitter, operator, other machines
LONGEST_BACK_OFF = 4  # seconds
TASKS_EVERY, WORKERS_EVERY = 0.5, 10.0  # seconds


@dataclass(frozen=True)
class Options:
    """Options of a simulation. Without `seconds` and `runs` it runs until it is stopped."""

    agents: int = 20
    rate: float = 50.0
    seed: int = 1
    seconds: float | None = None
    runs: int | None = None
    failures: float = 0.1
    other_machines: int = 8
    beside_real_work: bool = False

    @property
    def timeout_sec(self) -> int:
        """One or two seconds, and more if the rate is low for the number of threads."""
        return ceil(1 + 2 * (self.agents + OTHER_THREADS) / self.rate)


class Participant(Protocol):
    def run(self) -> None: ...


class Simulation:
    def __init__(self, options: Options) -> None:
        if not options.beside_real_work:
            names.refuse_real_work()
        self.options = options
        self.context = Context(names.reserve(options.seed), options.rate, options.failures)
        self.operator = SimulatedOperator(self.context)
        self.submitter = PlanSubmitter(
            self.context, agents=options.agents, rate=options.rate, runs=options.runs, timeout_sec=options.timeout_sec
        )
        self.failed: list[Exception] = []
        self.began = monotonic()

    def stop(self) -> None:
        self.context.stop.set()

    def run(self, on_progress: Callable[[Report], None]) -> Report:
        """Runs until the end. `on_progress` is called every second."""
        self.began = monotonic()
        with short_retry_delays():
            threads = [
                threading.Thread(target=self._run_participant, args=(participant,))
                for participant in self._participants()
            ]
            for thread in threads:
                thread.start()
            try:
                self._wait_for_end(on_progress)
            finally:
                self.stop()
                report = self.report()
                for thread in threads:
                    thread.join()
        if self.failed:
            raise self.failed[0]
        self._finish_all_work()
        self.submitter.record_ended_runs()
        return report.finished(self._counts())

    def _participants(self) -> list[Participant]:
        agents = [SimulatedAgent(self.context, number) for number in range(1, self.options.agents + 1)]
        others = [OtherMachines(self.context, self.options.other_machines)] if self.options.other_machines else []
        return [*agents, *others, self.operator, self.submitter, Sweeper(self.context)]

    def _run_participant(self, participant: Participant) -> None:
        """Runs one thread with its own connection; an exception stops all threads."""
        try:
            participant.run()
        except Exception as error:  # noqa: BLE001 - raised again in run()
            self.failed.append(error)
            self.stop()
        finally:
            connections.close_all()

    def _wait_for_end(self, on_progress: Callable[[Report], None]) -> None:
        while not self.context.stop.wait(self._seconds_to_next_report()):
            on_progress(self.report())
            if self.options.seconds is not None and monotonic() - self.began >= self.options.seconds:
                return

    def _seconds_to_next_report(self) -> float:
        left = 1.0 if self.options.seconds is None else self.began + self.options.seconds - monotonic()
        return min(1.0, max(0.0, left))

    def report(self) -> Report:
        share = self.context.statistics.call_seconds / max(monotonic() - self.began, 0.001)
        threads = self.options.agents + OTHER_THREADS
        return Report(
            self.context.names.label,
            self.options.rate,
            monotonic() - self.began,
            share / threads,
            self._counts(),
        )

    def _counts(self) -> dict[str, Any]:
        """Completed tasks are counted in the database: some complete after the commit of the call that causes it."""
        done = Task.objects.filter(phase=self.context.names.phase, state=State.COMPLETED)
        return {**self.context.statistics.as_dict(), "tasks_done": done.count()}

    def _finish_all_work(self) -> None:
        """Shuts down killed workers, cancels unfinished runs, and finishes gates and patches."""
        self.operator.shut_down_missed_workers()
        for run_id in sorted(self.context.runs):
            self.operator.cancel(run_id, "the simulation has ended")
        remaining = GatesAndPatches(self.context, self.context.names.random("clearing up"), failures=0.0)
        while remaining.do_one():
            pass


@contextmanager
def short_retry_delays() -> Iterator[None]:
    """Shortens the retry delay in this process and restores it afterwards."""
    base, cap = settings.STATECORE_RETRY_BASE_SECONDS, settings.STATECORE_RETRY_CAP_SECONDS
    settings.STATECORE_RETRY_BASE_SECONDS, settings.STATECORE_RETRY_CAP_SECONDS = 1, min(cap, LONGEST_BACK_OFF)
    try:
        yield
    finally:
        settings.STATECORE_RETRY_BASE_SECONDS, settings.STATECORE_RETRY_CAP_SECONDS = base, cap


class Sweeper:
    """Runs the sweeps, in case no Celery worker does; running them twice is harmless."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def run(self) -> None:
        workers_at = monotonic()
        while not self.context.stop.wait(TASKS_EVERY):
            self.context.statistics.count_incident("timeouts", timers.time_out_tasks())
            timers.queue_retries()
            if monotonic() >= workers_at:
                workers_at += WORKERS_EVERY
                timers.mark_unresponsive_workers()
                timers.end_lost_workers()
