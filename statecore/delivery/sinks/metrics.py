"""Counts every committed event once for Prometheus, outside the transaction that committed it."""

from __future__ import annotations

from ...read_models import metrics
from .sink import Batch, Sink


class Metrics(Sink):
    """The counts are in memory and restart at 0 with the process, which Prometheus expects of counters."""

    name = "metrics"

    def __init__(self) -> None:
        self.counted = 0

    def deliver(self, batch: Batch) -> None:
        """Counts the events, except those of a batch that is delivered again because another sink has failed."""
        new = [event.entry for event in batch if event.position > self.counted]
        metrics.count_transitions(new)
        self.counted = batch[-1].position
