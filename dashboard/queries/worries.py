"""The few numbers that ask for a hand, out of the board's."""

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
    """`path` says where a browser finds the number in the board's news; a star stands for all, added up."""

    path: str
    label: str
    value: int
    url: str
    mood: str
    or_more: bool = False
    takes: str = ""  # the permission its page asks for


def figures(stats: dict[str, Any], alerts: str = "open") -> list[Figure]:
    """With all alerts that are open, or only the critical ones."""
    how_bad = "bad" if stats["alerts"]["critical"] or alerts == "critical" else "careful"
    breakers, gates = circuit_breaker.CircuitBreaker.flow, test_gate.TestGate.flow
    return [
        _stuck(stats),
        replace(
            _figure(stats, f"alerts.{alerts}", f"{alerts} alerts", reverse("console:alerts"), how_bad),
            takes="statecore.view_alert",
        ),
        *_in_state(stats, breakers, circuit_breaker.State.OPEN, "open breakers", "bad"),
        *_in_state(stats, gates, test_gate.State.BLOCKED, "blocked gates", "careful"),
        replace(
            _figure(stats, "minutes.*.overrides", "overrides last hour", reverse("console:overrides"), "careful"),
            takes="statecore.view_event",
        ),
    ]


def _stuck(stats: dict[str, Any]) -> Figure:
    """As many as its page would list, were it not cut."""
    found = _figure(stats, "stuck.listed", "stuck", reverse("console:stuck"), "bad")
    return replace(found, or_more=stats["stuck"]["or_more"])


def _in_state(stats: dict[str, Any], flow: Flow, state: str, label: str, mood: str) -> Iterator[Figure]:
    """None where the board tells nothing of this machine."""
    if flow.entity_type not in stats["counts"]:
        return
    address = reverse("console:machine", args=[flow.collection])
    url = f"{address}?{urlencode({'q': f'state:{state}'})}"
    yield _figure(stats, f"counts.{flow.entity_type}.{state}", label, url, mood)


def _figure(stats: dict[str, Any], path: str, label: str, url: str, mood: str) -> Figure:
    return Figure(path, label, _found(stats, path.split(".")), url, mood)


def _found(tree: Any, steps: list[str]) -> int:
    if not steps:
        return int(tree)
    first, *rest = steps
    if first == "*":
        return sum(_found(branch, rest) for branch in tree.values())
    return _found(tree[first], rest)
