"""State counts, transition rates and dwell times, read from the counters and the end of the journal."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import median
from typing import Any, cast

from django.core.cache import cache
from django.db.models import BigIntegerField, Count, QuerySet, Sum, Value

from statecore.journal import EventKind, Position, dwell_seconds
from statecore.kernel.clock import now
from statecore.kernel.flow import Flow
from statecore.read_models.diagrams.tones import StateStyle, state_styles
from statecore.records import StateCount, TransitionCount, TransitionRollUp
from statecore.records.roll_up import Resolution

from .search import Search
from .time_limit import TimedOut, time_limit

RATE_MINUTES = 10
CACHE_SECONDS = 10
DWELL_SAMPLE = 300  # events
COUNT_SECONDS = 1.0  # time limit for the chips of a search; without a count they show no number


@dataclass(frozen=True, slots=True)
class Share:
    """One state of a machine: its count, and its start and width in the bar in percent."""

    look: StateStyle
    count: int | None  # None when counting took too long
    is_live: bool
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Distribution:
    flow: Flow
    shares: list[Share]
    total: int
    live: int


def count_states(entity_type: str) -> dict[str, int]:
    return dict(StateCount.objects.filter(entity_type=entity_type).values_list("state", "count"))


def get_distribution(flow: Flow, counts: dict[str, int]) -> Distribution:
    """The bar covers live states only; final ones would leave no room for them."""
    live = {state: counts.get(state, 0) for state in flow.states if not flow.is_final(state)}
    total, so_far, shares = sum(live.values()), 0, []
    for state, look in state_styles(flow.entity_type).items():
        count = counts.get(state, 0)
        width = 100 * live.get(state, 0) / total if total else 0
        shares.append(Share(look, count, state in live, 100 * so_far / total if total else 0, width))
        so_far += live.get(state, 0)
    return Distribution(flow, shares, sum(counts.values()), total)


def count_search(flow: Flow, search: Search, spread: Distribution) -> list[Share]:
    """The shares with the search's counts for each state, ignoring the states that the search names."""
    if not search.conditions:
        return spread.shares
    try:
        counts = count_matching(flow, search)
    except TimedOut:
        return [replace(share, count=None) for share in spread.shares]
    return [replace(share, count=counts.get(share.look.state, 0)) for share in spread.shares]


def count_matching(flow: Flow, search: Search) -> dict[str, int]:
    """How many entities of each state meet the search's conditions; TimedOut when no index finds them fast enough."""
    rows: QuerySet[Any] = flow.model.objects.filter(*search.conditions)
    with time_limit(COUNT_SECONDS):
        return dict(rows.order_by().values_list("state").annotate(count=Count("pk")))


@dataclass(frozen=True, slots=True)
class Traffic:
    """Numbers for a diagram: forced edges, transitions/min by edge, median seconds by state."""

    forced: list[tuple[str, str]]
    rates: dict[tuple[str, str], float]
    dwell: dict[str, float]


def get_traffic(flow: Flow) -> Traffic:
    """Cached, so that a hundred viewers cost as much as one."""
    cached: Any = cache.get_or_set(f"console:traffic:{flow.entity_type}", lambda: _read_traffic(flow), CACHE_SECONDS)
    return cast("Traffic", cached)


def _read_traffic(flow: Flow) -> Traffic:
    rates = _read_edge_rates(flow.entity_type)
    declared = {(source, each.target) for each in flow.transitions for source in each.sources}
    forced = [edge for edge in rates if edge[0] and edge not in declared]
    active = {edge: rate for edge, rate in rates.items() if rate}
    return Traffic(forced, active, median_dwell(flow.entity_type))


def _read_edge_rates(entity_type: str) -> dict[tuple[str, str], float]:
    """Recent transitions/min of each edge that was ever taken."""
    ever = TransitionCount.objects.filter(entity_type=entity_type).values_list("from_state", "to_state")
    recent = _recent_rates().filter(entity_type=entity_type).values_list("from_state", "to_state")
    none: Any = Value(0, output_field=BigIntegerField())
    rows = ever.annotate(transitions=none).union(
        recent.annotate(transitions=Sum("count", output_field=BigIntegerField())), all=True
    )
    rates: dict[tuple[str, str], float] = {}
    for source, target, transitions in rows:
        rates[source, target] = rates.get((source, target), 0.0) + transitions / RATE_MINUTES
    return rates


def _recent_rates() -> QuerySet[TransitionRollUp]:
    this_minute = now().replace(second=0, microsecond=0)
    start = this_minute - timedelta(minutes=RATE_MINUTES)
    return TransitionRollUp.objects.filter(resolution=Resolution.MINUTE, start__gt=start)


def median_dwell(entity_type: str) -> dict[str, float]:
    """Median seconds that entities stayed in each state, over the latest transitions of the machine."""
    latest = Position.objects.filter(entity_type=entity_type).order_by("-position")[:DWELL_SAMPLE]
    stays: dict[str, list[float]] = defaultdict(list)
    for kind, state, body in latest.values_list("kind", "event__from_state", "event__body"):
        if state and kind != EventKind.EDITED:
            stays[state].append(dwell_seconds(body))
    return {state: median(seconds) for state, seconds in stays.items()}
