"""The numbers of every screen in a handful of queries, none of which reads a big table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from django.db import connection
from django.db.models import Count, Q, Sum

from ..kernel import registry
from ..kernel.clock import now, rfc3339
from ..kernel.moves import Severity
from ..records import Alert, SinkCursor, StateCount, TransitionRate
from ..sinks.counters import Counters
from .asking import may_be_more
from .overdue import Stuck, stuck

T = TypeVar("T")

SHOWN_MINUTES = 60
WINDOW_MINUTES = 5  # what a rate is taken over


class Standing(NamedTuple):
    """All there is to tell, by machine: what it is for somebody is `told`, once for many."""

    at: datetime
    position: int
    counts: dict[str, dict[str, int]]
    minutes: dict[str, dict[str, dict[str, int]]]
    stuck: Stuck
    alerts: dict[str, int]


def stats(seen: Collection[str] | None = None) -> dict[str, Any]:
    """How everything stands, or these machines."""
    return told(standing(), seen)


def standing() -> Standing:
    at = now()
    position, by_state = _counts()
    return Standing(at, position, by_state, _minutes(at), stuck(at), _alerts())


def told(found: Standing, seen: Collection[str] | None = None) -> dict[str, Any]:
    """Counts as of `position`, which the counters have reached; rates of the last minutes; what needs attention.

    For who sees some machines only, the sums are those of these too: else what they lack could be subtracted.
    """
    window = _sums_by_machine(found, seen)
    machines = {kind: _shares(sums, WINDOW_MINUTES) for kind, sums in window.items()}
    return {
        "position": found.position,
        "counts": _narrowed(found.counts, seen),
        "rates": {
            "window_minutes": WINDOW_MINUTES,
            **_shares(_added(window.values()), WINDOW_MINUTES),
            "machines": machines,
        },
        "minutes": {minute: _added(by.values()) for minute, by in _minutes_of(found, seen)},
        "stuck": _stuck(found.stuck, seen),
        "alerts": found.alerts,
    }


def _stuck(found: Stuck, seen: Collection[str] | None) -> dict[str, Any]:
    """Past their deadline, and `listed`: with those who wait for a person; `or_more` where these were too many."""
    overdue, waiting = _narrowed(found.overdue, seen), _narrowed(found.asking.waiting, seen)
    late = _narrowed(found.asking.late, seen)
    total = sum(overdue.values())
    return {
        "total": total,
        "machines": overdue,
        "waiting": waiting,
        "listed": total + sum(waiting.values()) - sum(late.values()),
        "or_more": may_be_more(waiting),
    }


def _minutes_of(found: Standing, seen: Collection[str] | None) -> Iterator[tuple[str, dict[str, dict[str, int]]]]:
    for minute, by_machine in found.minutes.items():
        if rest := _narrowed(by_machine, seen):
            yield minute, rest


def _narrowed(by_machine: dict[str, T], seen: Collection[str] | None) -> dict[str, T]:
    return by_machine if seen is None else {kind: value for kind, value in by_machine.items() if kind in seen}


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


def _minutes(at: datetime) -> dict[str, dict[str, dict[str, int]]]:
    """By minute for the last hour and by machine; minutes of no change are left out."""
    first = _minute(at) - timedelta(minutes=SHOWN_MINUTES - 1)
    sums = {"transitions": Sum("count"), "failed": Sum("failures"), "forced": Sum("overrides")}
    rows = (
        TransitionRate.objects.filter(minute__gte=first)
        .order_by()
        .values_list("minute", "entity_type")
        .annotate(**sums)
    )
    minutes: dict[str, dict[str, dict[str, int]]] = {}
    for minute, entity_type, *numbers in rows:
        minutes.setdefault(rfc3339(minute), {})[entity_type] = dict(zip(NUMBERS, numbers, strict=True))
    return minutes


def _sums_by_machine(found: Standing, seen: Collection[str] | None) -> dict[str, dict[str, int]]:
    """Over the window that rates are taken over."""
    start = rfc3339(_window_start(found.at))
    machines: dict[str, dict[str, int]] = {}
    for minute, by_machine in _minutes_of(found, seen):
        for kind, numbers in by_machine.items() if minute >= start else ():
            machines[kind] = _added([machines[kind], numbers]) if kind in machines else numbers
    return machines


def _added(rows: Iterable[dict[str, int]]) -> dict[str, int]:
    sums = dict.fromkeys(NUMBERS, 0)
    for numbers in rows:
        for name in NUMBERS:
            sums[name] += numbers[name]
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
