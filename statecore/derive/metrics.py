"""The metrics of all machines: what was changed, by whom, how long each state lasted, and where everything stands.

What happened is counted by the sequencer, event by event, and added up over its processes when it is asked for. Where
everything stands is read from the counters when it is asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from prometheus_client import Counter, Histogram

from ..journal import EventKind, dwell_seconds
from ..kernel import registry
from ..records import StateCount
from .standing import Standing

NOTHING = "none"  # the state before the first one
BUCKETS = (0.1, 1, 5, 15, 60, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)


class Durations(Histogram):
    """A histogram that takes many values at once: one by one they would cost a batch of moves a third of its speed."""

    def observe_all(self, values: Iterable[float]) -> None:
        falls: Tally[int] = Tally()
        total = 0.0
        for value in values:
            falls[bisect_left(self._upper_bounds, value)] += 1
            total += value
        self._sum.inc(total)
        for bucket, count in falls.items():
            self._buckets[bucket].inc(count)


transitions_total = Counter(
    "state_transitions_total", "Changes of state, creation included", ["entity_type", "from_state", "to_state"]
)
duration_seconds = Durations(
    "state_transition_duration_seconds", "Time spent in a state before it was left", ["entity_type", "state"],
    buckets=BUCKETS,
)  # fmt: skip
overrides_total = Counter("manual_state_overrides_total", "States forced by operators", ["entity_type", "operator"])

# Looking one up takes as long as counting it.
_moves, _stays = cache(transitions_total.labels), cache(duration_seconds.labels)


def observe(entries: Sequence[Any]) -> None:
    """Count what was committed; takes entries of the journal as well as its rows."""
    moves = Tally((entry.entity_type, entry.from_state or NOTHING, entry.to_state) for entry in entries)
    for labels, count in moves.items():
        _moves(*labels).inc(count)
    stays = defaultdict[tuple[str, str], list[float]](list)
    for entry in entries:
        if entry.from_state:
            stays[entry.entity_type, entry.from_state].append(dwell_seconds(entry.body))
        if entry.kind == EventKind.OVERRIDE:
            overrides_total.labels(entry.entity_type, entry.actor).inc()
    for state, durations in stays.items():
        _stays(*state).observe_all(durations)


class EntityStates(Standing):
    name = "entity_state"
    says = "Entities in each state"
    labels = ("entity_type", "state")

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        return (((entity_type, state), count) for entity_type, state, count in states())


def states() -> Iterator[tuple[str, str, int]]:
    """How many entities are in each state, as the counters sink has it: no table is counted."""
    counts = {(each.entity_type, each.state): each.count for each in StateCount.objects.all()}
    for flow in registry.flows():
        for state in flow.states:
            yield flow.entity_type, state, counts.get((flow.entity_type, state), 0)
