"""How many are where and how fast they move, from the counters alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Sum

from statecore.derive.tones import Look, looks
from statecore.kernel.clock import now
from statecore.kernel.flow import Flow
from statecore.records import StateCount, TransitionCount, TransitionRate

MINUTES = 60


@dataclass(frozen=True, slots=True)
class Share:
    """One state of a machine: how many are in it, and its part of the bar in percent."""

    look: Look
    count: int
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Distribution:
    flow: Flow
    shares: list[Share]
    total: int
    live: int


def state_counts() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for entity_type, state, count in StateCount.objects.values_list("entity_type", "state", "count"):
        found[entity_type][state] = count
    return found


def distribution(flow: Flow, counts: dict[str, int]) -> Distribution:
    """Of the live ones: what has ended would leave no room for them."""
    live = {state: counts.get(state, 0) for state in flow.states if not flow.is_final(state)}
    total, so_far, shares = sum(live.values()), 0, []
    for state, look in looks(flow.entity_type).items():
        count = counts.get(state, 0)
        width = 100 * live.get(state, 0) / total if total else 0
        shares.append(Share(look, count, 100 * so_far / total if total else 0, width))
        so_far += live.get(state, 0)
    return Distribution(flow, shares, sum(counts.values()), total)


def edge_counts(entity_type: str) -> dict[tuple[str, str], int]:
    rows = TransitionCount.objects.filter(entity_type=entity_type)
    return {(source, target): count for source, target, count in rows.values_list("from_state", "to_state", "count")}


def edge_rates(entity_type: str, minutes: int = 10) -> dict[tuple[str, str], float]:
    """Moves a minute along each edge, lately."""
    rows = _lately(minutes).filter(entity_type=entity_type).values("from_state", "to_state")
    return {(row["from_state"], row["to_state"]): row["moves"] / minutes for row in rows.annotate(moves=Sum("count"))}


@dataclass(frozen=True, slots=True)
class Minute:
    at: datetime
    moves: int
    failures: int
    overrides: int


def per_minute(minutes: int = MINUTES) -> list[Minute]:
    """Every minute of the last hour, also those in which nothing moved."""
    sums = {name: Sum(column) for name, column in (("moves", "count"), ("bad", "failures"), ("forced", "overrides"))}
    rows = {row["minute"]: row for row in _lately(minutes).values("minute").annotate(**sums)}
    first = _this_minute() - timedelta(minutes=minutes - 1)
    empty = {"moves": 0, "bad": 0, "forced": 0}
    found = [(at, rows.get(at, empty)) for at in (first + timedelta(minutes=n) for n in range(minutes))]
    return [Minute(at, row["moves"], row["bad"], row["forced"]) for at, row in found]


def _this_minute() -> datetime:
    return now().replace(second=0, microsecond=0)


def _lately(minutes: int):  # type: ignore[no-untyped-def]
    return TransitionRate.objects.filter(minute__gt=_this_minute() - timedelta(minutes=minutes))
