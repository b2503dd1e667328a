"""The metrics of all machines: what was changed, by whom, how long each state lasted, and where everything stands.

What happened is counted in each process after its commits, and added up over all processes when it is asked for.
Where everything stands is read from the database when it is asked for.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.db.models import Count
from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ..journal import EventKind, dwell_seconds
from ..kernel import registry
from ..kernel.indexes import is_live

NOTHING = "none"  # the state before the first one
BUCKETS = (0.1, 1, 5, 15, 60, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)

transitions_total = Counter(
    "state_transitions_total", "Changes of state, creation included", ["entity_type", "from_state", "to_state"]
)
duration_seconds = Histogram(
    "state_transition_duration_seconds", "Time spent in a state before it was left", ["entity_type", "state"],
    buckets=BUCKETS,
)  # fmt: skip
overrides_total = Counter("manual_state_overrides_total", "States forced by operators", ["entity_type", "operator"])


def observe(entries: Sequence[Any]) -> None:
    """Count what was committed; takes entries of the journal as well as its rows."""
    moves = Tally((entry.entity_type, entry.from_state or NOTHING, entry.to_state) for entry in entries)
    for labels, count in moves.items():
        transitions_total.labels(*labels).inc(count)
    for entry in entries:
        if entry.kind == EventKind.OVERRIDE:
            overrides_total.labels(entry.entity_type, entry.actor).inc()
        if entry.from_state:
            duration_seconds.labels(entry.entity_type, entry.from_state).observe(dwell_seconds(entry.body))


class EntityStates(Collector):
    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily("entity_state", "Entities in each state", labels=["entity_type", "state"])
        for entity_type, state, count in states():
            family.add_metric([entity_type, state], count)
        yield family


def states() -> Iterable[tuple[str, str, int]]:
    """How many entities are in each state that is not final, from the partial index of live rows."""
    for flow in registry.flows():
        live = flow.model.objects.filter(is_live(flow.final)).order_by().values_list("state")
        found = dict(live.annotate(count=Count("pk")))
        yield from ((flow.entity_type, state, found.get(state, 0)) for state in flow.states if state not in flow.final)
