"""The numbers of the board in a handful of queries, none of which reads a whole large table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from django.db import connection
from django.db.models import Count, Q, Sum

from ...journal.position import current_epoch
from ...kernel import registry
from ...kernel.clock import now, rfc3339
from ...kernel.transition import Severity
from ...records import Alert, SinkCursor, StateCount, TransitionRollUp
from ...records.alert import INTEGRITY
from ...records.counter import COUNTERS_SINK
from ...records.hold import Hold, Kind, select_active
from ...records.roll_up import Resolution
from ..estimates import Estimate
from ..incidents import summarize
from . import run_ends, stuck_counts, task_progress, today
from .stuck_counts import StuckCounts
from .task_progress import TaskProgress
from .today import Today

T = TypeVar("T")

SHOWN_MINUTES = 60
WINDOW_MINUTES = 5  # over which rates are computed


class Snapshot(NamedTuple):
    """All numbers by machine; `serialize_snapshot` limits them to the machines that a user may see."""

    at: datetime
    epoch: int
    position: int
    counts: dict[str, dict[str, int]]
    minutes: dict[str, dict[str, dict[str, int]]]
    stuck: StuckCounts
    progress: TaskProgress
    alerts: dict[str, int]
    holds: list[Hold]
    today: Today
    run_ends: list[Estimate]


def get_stats(visible: Collection[str] | None = None) -> dict[str, Any]:
    """Returns the current numbers of all machines, or of the visible ones."""
    return serialize_snapshot(take_snapshot(), visible)


def take_snapshot() -> Snapshot:
    at = now()
    position, counts = _read_counts()
    alerts, holds = _count_alerts(), list(select_active(at))
    minutes, stuck = _read_minutes(at), stuck_counts.cache.get(at)
    progress, ended, ends = task_progress.cache.get(at), today.cache.get(at), run_ends.cache.get(at)
    return Snapshot(at, current_epoch(), position, counts, minutes, stuck, progress, alerts, holds, ended, ends)


def serialize_snapshot(snapshot: Snapshot, visible: Collection[str] | None = None) -> dict[str, Any]:
    """Returns the numbers of a snapshot as the API shows them; the counts are those at `position`.

    Sums cover the visible machines only. From the sums of all machines, a user could compute those of hidden ones.
    """
    window = _sum_window(snapshot, visible)
    overdue = _keep_visible(snapshot.stuck.overdue, visible)
    return {
        "epoch": snapshot.epoch,
        "position": snapshot.position,
        "counts": _keep_visible(snapshot.counts, visible),
        "rates": {
            "window_minutes": WINDOW_MINUTES,
            **_compute_rates(_sum_numbers(window.values())),
            "machines": {entity_type: _compute_rates(sums) for entity_type, sums in window.items()},
        },
        "minutes": {
            minute: _sum_numbers(machines.values()) for minute, machines in _iterate_visible_minutes(snapshot, visible)
        },
        "trends": _list_trends(snapshot, visible),
        "today": _keep_visible(snapshot.today.ended, visible),
        "blocked_gates": snapshot.today.blocked_gates if visible is None or "test_gate" in visible else [],
        "run_ends": _list_run_ends(snapshot, visible),
        "stuck": {
            "total": sum(overdue.values()),
            "machines": overdue,
            "waiting": _keep_visible(snapshot.stuck.waiting, visible),
            "listed": sum(_keep_visible(snapshot.stuck.listed, visible).values()),
        },
        "progress": (snapshot.progress if visible is None or "task" in visible else TaskProgress(0, 0))._asdict(),
        "alerts": snapshot.alerts,
        "incidents": summarize(snapshot.stuck.incidents, snapshot.at, visible),
        "holds": [_serialize_hold(hold) for hold in snapshot.holds if _is_hold_visible(hold, visible)],
    }


def _list_trends(snapshot: Snapshot, visible: Collection[str] | None) -> dict[str, list[int]]:
    """Returns the transitions of each complete minute of the last hour, by machine; the current minute would dip."""
    this_minute = _truncate_to_minute(snapshot.at)
    minutes = [rfc3339(this_minute - timedelta(minutes=ago)) for ago in range(SHOWN_MINUTES - 1, 0, -1)]
    seen = _keep_visible({name: None for numbers in snapshot.minutes.values() for name in numbers}, visible)
    nothing = dict.fromkeys(NUMBERS, 0)
    return {
        name: [snapshot.minutes.get(minute, {}).get(name, nothing)["transitions"] for minute in minutes]
        for name in sorted(seen)
    }


def _list_run_ends(snapshot: Snapshot, visible: Collection[str] | None) -> list[dict[str, Any]]:
    is_visible = visible is None or run_ends.ABOUT.issubset(visible)
    return [each.as_dict() for each in snapshot.run_ends] if is_visible else []


def _is_hold_visible(hold: Hold, visible: Collection[str] | None) -> bool:
    """Whether the user may see what the hold is about; its text may name the run."""
    return visible is None or hold.kind != Kind.RUN or "run" in visible


def _serialize_hold(hold: Hold) -> dict[str, Any]:
    names = ("id", "scope", "reason", "created_by", "expires_at")
    fields = hold.as_dict()
    return {name: fields[name] for name in names}


def _iterate_visible_minutes(
    snapshot: Snapshot, visible: Collection[str] | None
) -> Iterator[tuple[str, dict[str, dict[str, int]]]]:
    for minute, machines in snapshot.minutes.items():
        if rest := _keep_visible(machines, visible):
            yield minute, rest


def _keep_visible(machines: dict[str, T], visible: Collection[str] | None) -> dict[str, T]:
    if visible is None:
        return machines
    return {entity_type: value for entity_type, value in machines.items() if entity_type in visible}


def count_by_state() -> dict[str, dict[str, int]]:
    """Returns the number of entities in each state of each machine."""
    return _read_counts()[1]


def _read_counts() -> tuple[int, dict[str, dict[str, int]]]:
    """Returns the position of the counters and the counts, read by one statement so that they belong together."""
    found = {flow.entity_type: dict.fromkeys(flow.states, 0) for flow in registry.flows()}
    position = 0
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_COUNTS, [COUNTERS_SINK])
        for entity_type, state, count in cursor.fetchall():
            if not entity_type:
                position = count
            elif state in found.get(entity_type, {}):
                found[entity_type][state] = count
    return position, found


_SELECT_COUNTS = (
    f"SELECT '' AS entity_type, '' AS state, position AS count FROM {SinkCursor._meta.db_table} WHERE sink = %s "
    f"UNION ALL SELECT entity_type, state, count FROM {StateCount._meta.db_table}"
)
NUMBERS = ("transitions", "failures", "overrides")


def _read_minutes(at: datetime) -> dict[str, dict[str, dict[str, int]]]:
    """Returns the numbers of the last hour by minute and machine, without minutes in which nothing changed."""
    first = _truncate_to_minute(at) - timedelta(minutes=SHOWN_MINUTES - 1)
    sums = {"transitions": Sum("count"), "failed": Sum("failures"), "forced": Sum("overrides")}
    rows = (
        TransitionRollUp.objects.filter(resolution=Resolution.MINUTE, start__gte=first)
        .order_by()
        .values_list("start", "entity_type")
        .annotate(**sums)
    )
    minutes: dict[str, dict[str, dict[str, int]]] = {}
    for minute, entity_type, *numbers in rows:
        minutes.setdefault(rfc3339(minute), {})[entity_type] = dict(zip(NUMBERS, numbers, strict=True))
    return minutes


def _sum_window(snapshot: Snapshot, visible: Collection[str] | None) -> dict[str, dict[str, int]]:
    """Returns the sums of each machine over the minutes for which rates are computed."""
    start = rfc3339(_truncate_to_minute(snapshot.at) - timedelta(minutes=WINDOW_MINUTES - 1))
    sums: dict[str, dict[str, int]] = {}
    for minute, machines in _iterate_visible_minutes(snapshot, visible):
        for entity_type, numbers in machines.items() if minute >= start else ():
            sums[entity_type] = _sum_numbers([sums[entity_type], numbers]) if entity_type in sums else numbers
    return sums


def _sum_numbers(rows: Iterable[dict[str, int]]) -> dict[str, int]:
    sums = dict.fromkeys(NUMBERS, 0)
    for numbers in rows:
        for name in NUMBERS:
            sums[name] += numbers[name]
    return sums


def _truncate_to_minute(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(second=0, microsecond=0)


def _compute_rates(sums: dict[str, int]) -> dict[str, float]:
    """Returns the rates. The current minute counts as a whole one, so they rise smoothly and are never too high."""
    transitions = sums["transitions"]
    return {
        "transitions_per_minute": round(transitions / WINDOW_MINUTES, 3),
        "failure_rate": round(sums["failures"] / transitions, 6) if transitions else 0.0,
        "override_rate": round(sums["overrides"] / transitions, 6) if transitions else 0.0,
    }


def _count_alerts() -> dict[str, int]:
    """Counts open alerts, for which there is a partial index."""
    critical, unacknowledged = Q(severity=Severity.CRITICAL.value), Q(acknowledged_at=None)
    counts = {
        "critical": Count("pk", filter=critical),
        "unacknowledged": Count("pk", filter=unacknowledged),
        "integrity": Count("pk", filter=Q(rule=INTEGRITY)),
    }
    return Alert.objects.filter(resolved_at=None).aggregate(open=Count("pk"), **counts)
