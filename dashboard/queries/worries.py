"""The few numbers that ask for a hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.core.cache import cache
from django.db.models import Sum
from django.urls import reverse

from statecore.kernel.clock import now
from statecore.records import Alert, TransitionRate
from statecore.stuck import stuck

MOST = 200
STUCK_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    label: str
    value: int
    url: str
    mood: str


def figures(user: Any, counts: dict[str, dict[str, int]]) -> list[Figure]:
    """Alerts are few and have an index; the rest is read from counters and gauges."""
    loud = list(Alert.objects.filter(resolved_at=None).values_list("severity", flat=True)[:MOST])
    open_breakers = counts.get("circuit_breaker", {}).get("OPEN", 0)
    blocked = counts.get("test_gate", {}).get("BLOCKED", 0)
    forced = _forced_lately()
    return [
        Figure("stuck", "stuck", stuck_now(), reverse("console:stuck"), "bad"),
        Figure("alerts", "open alerts", len(loud), reverse("console:alerts"), "bad" if "critical" in loud else "careful"),
        Figure("breakers", "open breakers", open_breakers, _machine("breakers", "OPEN"), "bad"),
        Figure("gates", "blocked gates", blocked, _machine("gates", "BLOCKED"), "careful"),
        Figure("overrides", "overrides in the last hour", forced, reverse("console:overrides"), "careful"),
    ]


def _machine(collection: str, state: str) -> str:
    return f"{reverse('console:machine', args=[collection])}?q=state%3A{state}"


def _forced_lately() -> int:
    lately = TransitionRate.objects.filter(minute__gt=now() - timedelta(hours=1))
    return lately.aggregate(forced=Sum("overrides"))["forced"] or 0


def stuck_now() -> int:
    """Looked for by one process at most once in a while, however many look at the page."""
    found: int = cache.get_or_set("console:stuck", _count_stuck, STUCK_SECONDS)
    return found


def _count_stuck() -> int:
    return len(stuck(MOST))
