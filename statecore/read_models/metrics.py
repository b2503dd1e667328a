"""Metrics of all machines: transitions, overrides, time in each state, and entities per state.

The sequencer counts events. The number of entities per state is read from the counters table on each scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from prometheus_client import Counter, Histogram

from ..journal import TRANSITION_KINDS, EventKind, dwell_seconds
from ..kernel import registry
from ..records import StateCount
from .database_gauge import DatabaseGauge

NO_STATE = "none"  # the source state of a creation
BUCKETS = (0.1, 1, 5, 15, 60, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)


class Durations(Histogram):
    """A histogram that observes many values at once; one at a time they cost a batch a third of its speed."""

    def observe_all(self, values: Iterable[float]) -> None:
        counts: Tally[int] = Tally()
        total = 0.0
        for value in values:
            counts[bisect_left(self._upper_bounds, value)] += 1
            total += value
        self._sum.inc(total)
        for bucket, count in counts.items():
            self._buckets[bucket].inc(count)


transitions_total = Counter(
    "state_transitions_total", "State transitions, including creation", ["entity_type", "from_state", "to_state"]
)
duration_seconds = Durations(
    "state_transition_duration_seconds", "Time spent in a state before leaving it", ["entity_type", "state"],
    buckets=BUCKETS,
)  # fmt: skip
overrides_total = Counter("manual_state_overrides_total", "Overrides by operators", ["entity_type", "operator"])

# Looking up the labels takes as long as counting.
_transitions, _durations = cache(transitions_total.labels), cache(duration_seconds.labels)


def count_transitions(entries: Sequence[Any]) -> None:
    """Counts committed events, given as journal entries or rows; edits and account entries are left out."""
    entries = [entry for entry in entries if entry.kind in TRANSITION_KINDS]
    transitions = Tally((entry.entity_type, entry.from_state or NO_STATE, entry.to_state) for entry in entries)
    for labels, count in transitions.items():
        _transitions(*labels).inc(count)
    durations = defaultdict[tuple[str, str], list[float]](list)
    for entry in entries:
        if entry.from_state:
            durations[entry.entity_type, entry.from_state].append(dwell_seconds(entry.body))
        if entry.kind == EventKind.OVERRIDE:
            overrides_total.labels(entry.entity_type, entry.actor).inc()
    for state, values in durations.items():
        _durations(*state).observe_all(values)


class EntityStates(DatabaseGauge):
    name = "entity_state"
    documentation = "Entities in each state"
    labels = ("entity_type", "state")

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        return (((entity_type, state), count) for entity_type, state, count in count_entities())


def count_entities() -> Iterator[tuple[str, str, int]]:
    """Yields the number of entities per machine and state from the counters table."""
    counts = {(each.entity_type, each.state): each.count for each in StateCount.objects.all()}
    for flow in registry.flows():
        for state in flow.states:
            yield flow.entity_type, state, counts.get((flow.entity_type, state), 0)
