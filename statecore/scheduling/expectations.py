"""How long entities are expected to stay in a state: learnt from past transitions, where it has no limit of its own.

The trends sink keeps histograms of past times; those of two weeks count. The expectation is a multiple of their
95th percentile and replaces the declared deadline in the stuck list and its alert. Recoveries keep the declared
deadline: a learnt one must not take work from its holder.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from datetime import timedelta

from django.conf import settings
from django.db.models import Sum

from ..kernel.clock import now
from ..kernel.flow import Flow
from ..records import DwellRollUp
from ..records.roll_up import Resolution, get_bucket_seconds

CACHE_SECONDS = 60.0
LEARNT_FROM = timedelta(days=14)
MIN_SAMPLES = 50
PERCENTILE, FACTOR = 0.95, 3
# The expectation is between these multiples of the declared deadline.
SHORTEST, LONGEST = 0.25, 10
Histogram = dict[int, int]  # bucket → count


def expected_duration(flow: Flow, state: str) -> timedelta | None:
    """Return how long an entity may stay in a state, or make no progress, before it is stuck; None if it may rest."""
    deadline = flow.deadline(state)
    if deadline is None or not _learns(flow, state):
        return deadline
    learnt = cache.get().get((flow.entity_type, state))
    if learnt is None:
        return deadline
    # Where no agent holds it, it waits for others to be done first, which takes longer under load.
    shortest = deadline if state in flow.free_in else deadline * SHORTEST
    return min(max(learnt, shortest), deadline * LONGEST)


def _learns(flow: Flow, state: str) -> bool:
    """Whether nothing else limits the state: no setting, no heartbeats, and no parts whose progress counts."""
    is_set = f"{flow.entity_type}.{state}" in settings.STATECORE_DEADLINES
    return not (is_set or state in flow.renewed_in or state in flow.moves_with_parts)


def compute_expectation(histogram: Histogram) -> timedelta | None:
    """Return a multiple of the percentile; None if there are too few samples."""
    total = sum(histogram.values())
    if total < MIN_SAMPLES:
        return None
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= total * PERCENTILE:
            break
    return FACTOR * timedelta(seconds=get_bucket_seconds(bucket))


class ExpectationCache:
    """The expectations of all states, read at most once a minute by a process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.learnt: dict[tuple[str, str], timedelta] = {}
        self.until = 0.0

    def get(self) -> dict[tuple[str, str], timedelta]:
        with self.lock:
            if time.monotonic() >= self.until:
                self.learnt, self.until = _read(), time.monotonic() + CACHE_SECONDS
            return self.learnt

    def clear(self) -> None:
        self.until = 0.0


def _read() -> dict[tuple[str, str], timedelta]:
    histograms: dict[tuple[str, str], Histogram] = defaultdict(dict)
    recent = DwellRollUp.objects.filter(resolution=Resolution.DAY, start__gte=now() - LEARNT_FROM).order_by()
    rows = recent.values_list("entity_type", "state", "bucket").annotate(sum=Sum("count"))
    for entity_type, state, bucket, count in rows:
        histograms[entity_type, state][bucket] = count
    found = {key: compute_expectation(histogram) for key, histogram in histograms.items()}
    return {key: expectation for key, expectation in found.items() if expectation is not None}


cache = ExpectationCache()
