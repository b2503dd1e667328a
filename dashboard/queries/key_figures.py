"""The key figures of the overview and the wall: numbers that call for action, taken from the board."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from statecore.kernel.flow import Flow
from statecore.machines import circuit_breaker, test_gate


@dataclass(frozen=True, slots=True)
class Figure:
    """`path` locates the number in the board's updates; a star sums over all keys."""

    path: str
    label: str
    value: int
    url: str
    mood: str
    permission: str = ""  # required to open the linked page


def list_figures(stats: dict[str, Any], alerts: str = "open") -> list[Figure]:
    """`alerts` selects which are counted: `open` or `critical`."""
    alert_mood = "bad" if stats["alerts"]["critical"] or alerts == "critical" else "careful"
    breakers, gates = circuit_breaker.CircuitBreaker.flow, test_gate.TestGate.flow
    return [
        _figure(stats, "incidents.open", "incidents", reverse("console:incidents"), "bad"),
        replace(
            _figure(stats, f"alerts.{alerts}", f"{alerts} alerts", reverse("console:alerts"), alert_mood),
            permission="statecore.view_alert",
        ),
        *_count_in_state(stats, breakers, circuit_breaker.State.OPEN, "open breakers", "bad"),
        *_count_in_state(stats, gates, test_gate.State.BLOCKED, "blocked gates", "careful"),
        replace(
            _figure(stats, "minutes.*.overrides", "overrides, last hour", _recent_overrides(), "careful"),
            permission="statecore.view_event",
        ),
    ]


def _recent_overrides() -> str:
    return f"{reverse('console:overrides')}?last=hour"


def _count_in_state(stats: dict[str, Any], flow: Flow, state: str, label: str, mood: str) -> Iterator[Figure]:
    """Nothing when the board leaves this machine out."""
    if flow.entity_type not in stats["counts"]:
        return
    address = reverse("console:machine", args=[flow.collection])
    url = f"{address}?{urlencode({'q': f'state:{state}'})}"
    yield _figure(stats, f"counts.{flow.entity_type}.{state}", label, url, mood)


def _figure(stats: dict[str, Any], path: str, label: str, url: str, mood: str) -> Figure:
    return Figure(path, label, _sum_at(stats, path.split(".")), url, mood)


def _sum_at(tree: Any, steps: list[str]) -> int:
    if not steps:
        return int(tree)
    first, *rest = steps
    if first == "*":
        return sum(_sum_at(branch, rest) for branch in tree.values())
    return _sum_at(tree[first], rest)
