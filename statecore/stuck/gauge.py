"""How much is stuck, for whoever watches from outside."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ..derive.standing import Standing
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


class StuckEntities(Standing):
    name = "statecore_stuck_entities"
    says = f"Past their deadline, up to {MOST} each"
    labels = ("entity_type", "state")

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        return (((entity_type, state), count) for entity_type, state, count in overdue_counts(now()))
