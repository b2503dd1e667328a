"""The few numbers that ask for a hand, out of the board's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from statecore.kernel import registry


@dataclass(frozen=True, slots=True)
class Figure:
    """`name` is where a browser finds the number in the board's news."""

    name: str
    label: str
    value: int
    url: str
    mood: str


def figures(stats: dict[str, Any]) -> list[Figure]:
    alerts, counts = stats["alerts"], stats["counts"]
    forced = sum(minute["overrides"] for minute in stats["minutes"].values())
    return [
        Figure("stuck", "past their deadline", stats["stuck"]["total"], reverse("console:stuck"), "bad"),
        Figure(
            "alerts",
            "open alerts",
            alerts["open"],
            reverse("console:alerts"),
            "bad" if alerts["critical"] else "careful",
        ),
        Figure("breakers", "open breakers", *_in_state(counts, "circuit_breaker", "OPEN"), "bad"),
        Figure("gates", "blocked gates", *_in_state(counts, "test_gate", "BLOCKED"), "careful"),
        Figure("overrides", "overrides in the last hour", forced, reverse("console:overrides"), "careful"),
    ]


def _in_state(counts: dict[str, dict[str, int]], entity_type: str, state: str) -> tuple[int, str]:
    address = reverse("console:machine", args=[registry.flow(entity_type).collection])
    return counts[entity_type][state], f"{address}?{urlencode({'q': f'state:{state}'})}"
