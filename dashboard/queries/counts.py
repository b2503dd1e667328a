"""How many are where and how fast they move, from the counters alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import QuerySet, Sum

from statecore.derive.tones import Look, looks
from statecore.kernel.clock import now
from statecore.kernel.flow import Flow
from statecore.records import StateCount, TransitionCount, TransitionRate


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


def edge_counts(entity_type: str) -> dict[tuple[str, str], int]:
    rows = TransitionCount.objects.filter(entity_type=entity_type)
    return {(source, target): count for source, target, count in rows.values_list("from_state", "to_state", "count")}


def edge_rates(entity_type: str, minutes: int = 10) -> dict[tuple[str, str], float]:
    """Moves a minute along each edge, lately."""
    rows = _lately(minutes).filter(entity_type=entity_type).values("from_state", "to_state")
    return {(row["from_state"], row["to_state"]): row["moves"] / minutes for row in rows.annotate(moves=Sum("count"))}


def _lately(minutes: int) -> QuerySet[TransitionRate]:
    this_minute = now().replace(second=0, microsecond=0)
    return TransitionRate.objects.filter(minute__gt=this_minute - timedelta(minutes=minutes))
