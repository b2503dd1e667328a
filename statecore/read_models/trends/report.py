"""The panels of a report: what each shows, for all machines, for one, or for the tasks that require a capability."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any, NamedTuple

from django.core.cache import cache

from ...kernel import registry
from ...kernel.clock import rfc3339
from ...machines.task import State, Task
from ...machines.worker import Worker
from ...records.roll_up import Load
from .period import DAY, Period
from .rows import (
    Histogram,
    Moves,
    Steps,
    find_first,
    find_percentile,
    iterate_hours,
    merge,
    read_capability,
    read_load,
    read_moves,
    read_stays,
    sum_load,
)

CACHE_SECONDS = 30
WEEKS = 4  # of the heat map
MEDIAN, HIGH = 0.5, 0.95
PER_MINUTE, COUNT, SECONDS, TASKS = "per_minute", "count", "seconds", "tasks"
LOAD = (Load.SLOTS, Load.BUSY, Load.QUEUED)
Values = list[float | None]


class Line(NamedTuple):
    """`before` is the same of the period before; None stands for steps of which nothing is known."""

    name: str
    tone: str
    values: Values
    before: Values


class Panel(NamedTuple):
    """`total` summarises the period, and `total_before` the one before, in `unit`."""

    name: str
    title: str
    unit: str
    lines: list[Line]
    label: str
    total: float | None
    total_before: float | None


class HeatMap(NamedTuple):
    """Mean transitions per hour, by weekday and hour in UTC; Monday comes first."""

    weeks: int
    hours: list[list[float]]


class Report(NamedTuple):
    period: Period
    # When recording began; the steps before have no values.
    first: datetime | None
    panels: list[Panel]
    heat_map: HeatMap | None

    @property
    def is_empty(self) -> bool:
        return not any(value for panel in self.panels for line in panel.lines for value in line.values)

    def as_dict(self) -> dict[str, Any]:
        return {
            "since": rfc3339(self.period.start),
            "until": rfc3339(self.period.end),
            "step_seconds": int(self.period.step.total_seconds()),
            "recorded_since": self.first and rfc3339(self.first),
            "panels": [{**panel._asdict(), "lines": [line._asdict() for line in panel.lines]} for panel in self.panels],
        }


class Scope(NamedTuple):
    """What a report is about, as far as its reader may see it."""

    visible: frozenset[str]
    entity_type: str = ""
    capability: str = ""

    @property
    def machines(self) -> frozenset[str]:
        return frozenset({self.entity_type}) if self.entity_type else self.visible

    @property
    def has_load(self) -> bool:
        return {Task.flow.entity_type, Worker.flow.entity_type} <= self.visible


def build_report(scope: Scope, period: Period) -> Report:
    """Computed once in half a minute for all readers who may see the same."""
    given = f"{sorted(scope.visible)} {scope.entity_type} {scope.capability} {period}"
    key = f"trends:{hashlib.sha256(given.encode()).hexdigest()}"
    found: Report | None = cache.get(key)
    if found is None:
        found = _Builder(scope, period).build()
        cache.set(key, found, CACHE_SECONDS)
    return found


class _Builder:
    def __init__(self, scope: Scope, period: Period) -> None:
        self.scope, self.period, self.first = scope, period, find_first(period)
        self.minutes = Steps(period.list_minutes(), [period.step / timedelta(minutes=1)] * period.step_count)

    def build(self) -> Report:
        panels = [*(self._list_of_capability() if self.scope.capability else self._list_of_machines())]
        heat_map = None if self.scope.capability else _build_heat_map(self.scope, self.period.end)
        return Report(self.period, self.first, panels, heat_map)

    def _list_of_capability(self) -> Iterator[Panel]:
        stays, attempts = read_capability(self.period, self.scope.capability)
        yield self._build_throughput("attempts ended", attempts)
        yield self._build_failures(attempts)
        yield from self._list_task_times(stays)
        yield from self._list_load()

    def _list_of_machines(self) -> Iterator[Panel]:
        moves = read_moves(self.period, self.scope.machines)
        yield self._build_throughput("transitions", moves)
        yield self._build_failures(moves)
        if self.scope.entity_type in ("", Task.flow.entity_type) and Task.flow.entity_type in self.scope.visible:
            stays = read_stays(self.period, Task.flow.entity_type, (State.QUEUED.value, State.RUNNING.value))
            yield from self._list_task_times(stays)
        elif self.scope.entity_type:
            yield from self._list_times(self.scope.entity_type)
        if self.scope.entity_type in ("", Task.flow.entity_type, Worker.flow.entity_type) and self.scope.has_load:
            yield from self._list_load()
        yield self._build_overrides(moves)
        yield self._build_stuck()

    def _list_task_times(self, stays: dict[str, Steps[Histogram]]) -> Iterator[Panel]:
        yield self._build_times("queue_wait", "Queue wait", stays.get(State.QUEUED.value))
        yield self._build_times("duration", "Duration of attempts", stays.get(State.RUNNING.value))

    def _list_times(self, entity_type: str) -> Iterator[Panel]:
        flow = registry.flow(entity_type)
        stays = read_stays(self.period, entity_type, flow.live)
        for state in flow.live:
            if state in stays:
                yield self._build_times(f"time_in_{state.lower()}", f"Time in {state.lower()}", stays[state])

    def _build_throughput(self, noun: str, moves: Steps[Moves]) -> Panel:
        sums = _sum(moves, lambda each: each.transitions)
        rates = Steps(*([a / b for a, b in zip(*each, strict=True)] for each in zip(sums, self.minutes, strict=True)))
        lines = [self._build_line(noun, "active", rates)]
        means = [sum(counts) / sum(minutes) for counts, minutes in zip(sums, self.minutes, strict=True)]
        return self._build_panel("throughput", "Throughput", PER_MINUTE, lines, "mean", *means)

    def _build_failures(self, moves: Steps[Moves]) -> Panel:
        return self._build_counts("failures", "Failures", "failed", _sum(moves, lambda each: each.failures))

    def _build_overrides(self, moves: Steps[Moves]) -> Panel:
        return self._build_counts("overrides", "Overrides", "forced", _sum(moves, lambda each: each.overrides))

    def _build_counts(self, name: str, title: str, tone: str, counts: Steps[float]) -> Panel:
        return self._build_panel(name, title, COUNT, [self._build_line(name, tone, counts)], "total", *map(sum, counts))

    def _build_times(self, name: str, title: str, stays: Steps[Histogram] | None) -> Panel:
        found = stays or Steps(*([Histogram()] * self.period.step_count for _ in range(2)))
        lines = [
            self._build_line(word, tone, Steps(*([find_percentile(each, share) for each in half] for half in found)))
            for word, tone, share in (("p50", "active", MEDIAN), ("p95", "held", HIGH))
        ]
        highs = [find_percentile(merge(half), HIGH) for half in found]
        return self._build_panel(name, title, SECONDS, lines, "p95", *highs)

    def _list_load(self) -> Iterator[Panel]:
        """Utilisation apart from the queue, because a queue may be a thousand times as long as there are workers."""
        slots, busy, queued = read_load(self.period, LOAD, [self.scope.capability]).values()
        capacity = [self._build_line("slots", "ended", slots), self._build_line("busy", "active", busy)]
        shares = [_compute_share(*pair) for pair in zip(busy, slots, strict=True)]
        yield self._build_panel("utilisation", "Utilisation", TASKS, capacity, "% busy", *shares)
        depth = [self._build_line("slots", "ended", slots), self._build_line("queued", "held", queued)]
        yield self._build_panel("queue", "Queue and slots", TASKS, depth, "queued", *map(_mean, queued))

    def _build_stuck(self) -> Panel:
        (numbers,) = read_load(self.period, [Load.STUCK], self.scope.machines).values()
        lines = [self._build_line("stuck", "troubled", numbers)]
        return self._build_panel("stuck", "Stuck", COUNT, lines, "mean", *map(_mean, numbers))

    def _build_line(self, name: str, tone: str, steps: Steps[Any]) -> Line:
        """Without the values of steps that were over before recording began."""
        starts = (self.period.start, self.period.previous_start)
        return Line(name, tone, *(self._hide(values, start) for values, start in zip(steps, starts, strict=True)))

    def _hide(self, values: Values, start: datetime) -> Values:
        hidden = self.period.step_count if self.first is None else max(0, (self.first - start) // self.period.step)
        return [None if place < hidden else value for place, value in enumerate(values)]

    def _build_panel(
        self, name: str, title: str, unit: str, lines: list[Line], label: str, total: float | None, before: float | None
    ) -> Panel:
        is_known = self.first is not None and self.first <= self.period.previous_start
        return Panel(name, title, unit, lines, label, total, before if is_known else None)


def _sum(moves: Steps[Moves], choose: Callable[[Moves], int]) -> Steps[float]:
    return Steps(*([float(choose(each)) for each in half] for half in moves))


def _mean(values: Values) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _compute_share(some: Values, all_of_them: Values) -> float | None:
    """In percent."""
    whole = sum(value or 0 for value in all_of_them)
    return 100 * sum(value or 0 for value in some) / whole if whole else None


def _build_heat_map(scope: Scope, until: datetime) -> HeatMap:
    """Weekday by hour, because it answers when the load comes; state by state is on the diagram of each machine."""
    sums = [[0.0] * 24 for _ in range(7)]
    for start, count in iterate_hours(scope.machines, until - 7 * WEEKS * DAY, until):
        sums[start.weekday()][start.hour] += count / WEEKS
    return HeatMap(WEEKS, sums)


class CapabilityLoad(NamedTuple):
    """Means over a period."""

    name: str
    slots: float
    busy: float
    queued: float


def list_capabilities(period: Period) -> list[CapabilityLoad]:
    """The capabilities that workers offered or queued tasks required, the longest queue first."""
    sums, samples = sum_load(period)
    names = {subject for measure, subject in sums if subject and measure != Load.STUCK}
    rows = [
        CapabilityLoad(name, *(sums.get((measure.value, name), 0) / (samples or 1) for measure in LOAD))
        for name in names
    ]
    return sorted(rows, key=lambda row: (-row.queued, row.name))
