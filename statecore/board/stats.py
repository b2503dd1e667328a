"""The numbers of every screen in a handful of queries, none of which reads a big table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, Q, Sum

from ..kernel import registry
from ..kernel.clock import now, rfc3339
from ..kernel.moves import Severity
from ..records import Alert, SinkCursor, StateCount, TransitionRate
from ..sinks.counters import Counters
from .overdue import overdue

SHOWN_MINUTES = 60
WINDOW_MINUTES = 5  # what a rate is taken over


def stats() -> dict[str, Any]:
    """Counts as of `position`, which the counters have reached; rates of the last minutes; what needs attention."""
    at = now()
    position, by_state = _counts()
    minutes, machines = _rates(at)
    window = _window(minutes, at)
    return {
        "position": position,
        "counts": by_state,
        "rates": {"window_minutes": WINDOW_MINUTES, **_shares(window, WINDOW_MINUTES), "machines": machines},
        "minutes": minutes,
        "stuck": overdue(at),
        "alerts": _alerts(),
    }


def counts() -> dict[str, dict[str, int]]:
    """How many entities of each machine are in each state."""
    return _counts()[1]


def _counts() -> tuple[int, dict[str, dict[str, int]]]:
    """One statement, so that the position is that of the counts."""
    found = {flow.entity_type: dict.fromkeys(flow.states, 0) for flow in registry.flows()}
    position = 0
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, [Counters.name])
        for entity_type, state, count in cursor.fetchall():
            if not entity_type:
                position = count
            elif state in found.get(entity_type, {}):
                found[entity_type][state] = count
    return position, found


_COUNTS = (
    f"SELECT '' AS entity_type, '' AS state, position AS count FROM {SinkCursor._meta.db_table} WHERE sink = %s "
    f"UNION ALL SELECT entity_type, state, count FROM {StateCount._meta.db_table}"
)
NUMBERS = ("transitions", "failures", "overrides")


def _rates(at: datetime) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """By minute for the last hour, and by machine for the window; minutes of no change are left out."""
    first = _minute(at) - timedelta(minutes=SHOWN_MINUTES - 1)
    sums = {"transitions": Sum("count"), "failed": Sum("failures"), "forced": Sum("overrides")}
    rows = (
        TransitionRate.objects.filter(minute__gte=first)
        .order_by()
        .values_list("minute", "entity_type")
        .annotate(**sums)
    )
    minutes: dict[str, dict[str, int]] = {}
    machines: dict[str, dict[str, int]] = {}
    start = _window_start(at)
    for minute, entity_type, *numbers in rows:
        _add(minutes.setdefault(rfc3339(minute), dict.fromkeys(NUMBERS, 0)), numbers)
        if minute >= start:
            _add(machines.setdefault(entity_type, dict.fromkeys(NUMBERS, 0)), numbers)
    return minutes, {name: _shares(sums, WINDOW_MINUTES) for name, sums in machines.items()}


def _add(sums: dict[str, int], numbers: list[int]) -> None:
    for name, number in zip(NUMBERS, numbers, strict=True):
        sums[name] += number


def _window(minutes: dict[str, dict[str, int]], at: datetime) -> dict[str, int]:
    start, sums = rfc3339(_window_start(at)), dict.fromkeys(NUMBERS, 0)
    for minute, numbers in minutes.items():
        if minute >= start:
            _add(sums, [numbers[name] for name in NUMBERS])
    return sums


def _window_start(at: datetime) -> datetime:
    return _minute(at) - timedelta(minutes=WINDOW_MINUTES - 1)


def _minute(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(second=0, microsecond=0)


def _shares(sums: dict[str, int], minutes: int) -> dict[str, float]:
    """The running minute counts as a whole one, so a rate rises smoothly and is never above the truth."""
    moves = sums["transitions"]
    return {
        "transitions_per_minute": round(moves / minutes, 3),
        "failure_rate": round(sums["failures"] / moves, 6) if moves else 0.0,
        "override_rate": round(sums["overrides"] / moves, 6) if moves else 0.0,
    }


def _alerts() -> dict[str, int]:
    """Of the open ones, which a partial index holds."""
    critical, unseen = Q(severity=Severity.CRITICAL.value), Q(acknowledged_at=None)
    counts = {"critical": Count("pk", filter=critical), "unacknowledged": Count("pk", filter=unseen)}
    return Alert.objects.filter(resolved_at=None).aggregate(open=Count("pk"), **counts)
