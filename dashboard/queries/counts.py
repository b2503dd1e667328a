"""How many are where and how fast they move, from the counters alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from django.core.cache import cache
from django.db.models import BigIntegerField, QuerySet, Sum, Value

from statecore.derive.tones import Look, looks
from statecore.kernel.clock import now
from statecore.kernel.flow import Flow
from statecore.records import StateCount, TransitionCount, TransitionRate

from . import dwell

MINUTES = 10  # a rate is taken over
KEPT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Share:
    """One state of a machine: how many are in it, and its part of the bar in percent."""

    look: Look
    count: int
    is_live: bool
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Distribution:
    flow: Flow
    shares: list[Share]
    total: int
    live: int


def state_counts(entity_type: str) -> dict[str, int]:
    return dict(StateCount.objects.filter(entity_type=entity_type).values_list("state", "count"))


def distribution(flow: Flow, counts: dict[str, int]) -> Distribution:
    """Of the live ones: what has ended would leave no room for them."""
    live = {state: counts.get(state, 0) for state in flow.states if not flow.is_final(state)}
    total, so_far, shares = sum(live.values()), 0, []
    for state, look in looks(flow.entity_type).items():
        count = counts.get(state, 0)
        width = 100 * live.get(state, 0) / total if total else 0
        shares.append(Share(look, count, state in live, 100 * so_far / total if total else 0, width))
        so_far += live.get(state, 0)
    return Distribution(flow, shares, sum(counts.values()), total)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a diagram says of its edges and states."""

    forced: list[tuple[str, str]]
    rates: dict[tuple[str, str], float]
    dwell: dict[str, float]


def traffic(flow: Flow) -> Traffic:
    """Kept a moment for everybody in the process: a hundred viewers cost what one does."""
    kept: Any = cache.get_or_set(f"console:traffic:{flow.entity_type}", lambda: _traffic(flow), KEPT_SECONDS)
    return cast("Traffic", kept)


def _traffic(flow: Flow) -> Traffic:
    rates = _edge_rates(flow.entity_type)
    declared = {(source, move.target) for move in flow.moves for source in move.sources}
    forced = [edge for edge in rates if edge[0] and edge not in declared]
    moving = {edge: rate for edge, rate in rates.items() if rate}
    return Traffic(forced, moving, dwell.medians(flow.entity_type))


def _edge_rates(entity_type: str) -> dict[tuple[str, str], float]:
    """Moves a minute along each edge that was ever taken, lately."""
    ever = TransitionCount.objects.filter(entity_type=entity_type).values_list("from_state", "to_state")
    lately = _lately(MINUTES).filter(entity_type=entity_type).values_list("from_state", "to_state")
    none: Any = Value(0, output_field=BigIntegerField())
    rows = ever.annotate(moves=none).union(
        lately.annotate(moves=Sum("count", output_field=BigIntegerField())), all=True
    )
    rates: dict[tuple[str, str], float] = {}
    for source, target, moves in rows:
        rates[source, target] = rates.get((source, target), 0.0) + moves / MINUTES
    return rates


def _lately(minutes: int) -> QuerySet[TransitionRate]:
    this_minute = now().replace(second=0, microsecond=0)
    return TransitionRate.objects.filter(minute__gt=this_minute - timedelta(minutes=minutes))
