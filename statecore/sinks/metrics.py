"""Counts for Prometheus: every committed event once, off the path of whoever committed it."""

from __future__ import annotations

from ..derive import metrics
from .numbered import Batch
from .sink import Sink


class Metrics(Sink):
    """What was counted and not yet asked for goes with the process, as Prometheus expects of counters."""

    name = "metrics"

    def __init__(self) -> None:
        self.counted = 0

    def deliver(self, batch: Batch) -> None:
        """A batch that comes again, because another sink has failed beside this one, was counted the first time."""
        metrics.observe([event.entry for event in batch if event.position > self.counted])
        self.counted = batch[-1].position
