"""How much is stuck, for whoever watches from outside."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ..kernel import registry
from ..kernel.clock import now
from . import scan

MOST = 1_000  # of each machine and state; who has more needs no exact number


def overdue_counts(at: datetime) -> Iterator[tuple[str, str, int]]:
    """How many are past the deadline of each state that has one, up to MOST."""
    for flow in registry.flows():
        for state in flow.states:
            if (deadline := flow.deadline(state)) is not None and not flow.is_final(state):
                yield flow.entity_type, state, scan.late(flow, state, at, deadline)[:MOST].count()


class StuckEntities(Collector):
    def collect(self) -> Iterator[GaugeMetricFamily]:
        labels = ["entity_type", "state"]
        family = GaugeMetricFamily("statecore_stuck_entities", f"Past their deadline, up to {MOST} each", labels=labels)
        for entity_type, state, count in overdue_counts(now()):
            family.add_metric([entity_type, state], count)
        yield family
