"""The sweeps, so that time passes also where no Celery runs; where one does, two of them harm nothing."""

from __future__ import annotations

from time import monotonic

from ..scheduling import timers
from .desk import Desk

TASKS_EVERY, WORKERS_EVERY = 0.5, 10.0  # seconds


class Sweeper:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def live(self) -> None:
        workers_at = monotonic()
        while not self.desk.stop.wait(TASKS_EVERY):
            self.desk.tally.happens("time-outs", timers.time_out_tasks())
            timers.queue_retries()
            if monotonic() >= workers_at:
                workers_at += WORKERS_EVERY
                timers.miss_heartbeats()
                timers.give_up_workers()
