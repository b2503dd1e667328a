"""Counts for Prometheus: every committed event once, off the path of whoever committed it."""

from __future__ import annotations

from ..derive import metrics
from .numbered import Batch
from .sink import Sink


class Metrics(Sink):
    """What was counted and not yet asked for goes with the process, as Prometheus expects of counters."""

    name = "metrics"

    def deliver(self, batch: Batch) -> None:
        metrics.observe([event.entry for event in batch])
