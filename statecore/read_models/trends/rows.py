"""Reads roll-ups into the steps of a period and of the one before it, with one query for both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from django.db.models import BigIntegerField, F, Func, Min, QuerySet, Sum

from ...machines.task import State
from ...records import CapabilityRollUp, DwellRollUp, LoadRollUp, TransitionRollUp
from ...records.roll_up import Load, Resolution, RollUp, get_bucket_seconds
from .period import Period

T = TypeVar("T")
Histogram = Counter[int]  # how often each bucket


class Steps(NamedTuple, Generic[T]):
    """What happened in each step of the period, and in each of the one before."""

    now: list[T]
    before: list[T]


class Moves(NamedTuple):
    transitions: int = 0
    failures: int = 0
    overrides: int = 0

    def plus(self, other: Iterable[int]) -> Moves:
        return Moves(*(a + b for a, b in zip(self, other, strict=True)))


class Step(Func):
    """The number of the step of a time, from the start of the period before; computed where rows are summed."""

    output_field = BigIntegerField()

    def __init__(self, period: Period) -> None:
        seconds = int(period.step.total_seconds())
        first = int(period.previous_start.timestamp()) // seconds
        super().__init__(F("start"), seconds=seconds, first=first)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "(CAST(strftime('%%%%s', %(expressions)s) AS INTEGER) / %(seconds)s - %(first)s)"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "(extract(epoch FROM %(expressions)s)::bigint / %(seconds)s - %(first)s)"
        return self.as_sql(compiler, connection, template=template, **context)


def select(model: type[RollUp], period: Period) -> QuerySet[Any]:
    rows: QuerySet[Any] = model._default_manager.filter(
        resolution=period.resolution, start__gte=period.previous_start, start__lt=period.end
    )
    numbered: QuerySet[Any] = rows.order_by().annotate(step=Step(period))
    return numbered


def find_first(period: Period) -> datetime | None:
    """When recording began, as far as rows of this resolution are kept."""
    firsts = (
        model._default_manager.filter(resolution=period.resolution).aggregate(first=Min("start"))["first"]
        for model in (TransitionRollUp, LoadRollUp)
    )
    return min(filter(None, firsts), default=None)


def _split(steps: list[T]) -> Steps[T]:
    half = len(steps) // 2
    return Steps(steps[half:], steps[:half])


def read_moves(period: Period, entity_types: Collection[str]) -> Steps[Moves]:
    steps = [Moves()] * (2 * period.step_count)
    rows = select(TransitionRollUp, period).filter(entity_type__in=sorted(entity_types)).values_list("step")
    for step, *numbers in rows.annotate(Sum("count"), Sum("failures"), Sum("overrides")):
        steps[step] = Moves(*numbers)
    return _split(steps)


def read_stays(period: Period, entity_type: str, states: Collection[str]) -> dict[str, Steps[Histogram]]:
    """How long entities stayed in these states, by state; without the states that none has left."""
    rows = select(DwellRollUp, period).filter(entity_type=entity_type, state__in=sorted(states))
    return _collect(period, rows.values_list("state", "step", "bucket").annotate(Sum("count")))


def read_capability(period: Period, capability: str) -> tuple[dict[str, Steps[Histogram]], Steps[Moves]]:
    """How long its tasks were queued and ran, and how many attempts ended and failed."""
    rows = select(CapabilityRollUp, period).filter(capability=capability)
    found = list(rows.values_list("state", "step", "bucket").annotate(Sum("count"), Sum("failures")))
    steps = [Moves()] * (2 * period.step_count)
    for state, step, _bucket, count, failures in found:
        if state == State.RUNNING:
            steps[step] = steps[step].plus((count, failures, 0))
    return _collect(period, (row[:4] for row in found)), _split(steps)


def _collect(period: Period, rows: Iterable[tuple[str, int, int, int]]) -> dict[str, Steps[Histogram]]:
    found: dict[str, list[Histogram]] = {}
    for state, step, bucket, count in rows:
        if state not in found:
            found[state] = [Counter() for _ in range(2 * period.step_count)]
        found[state][step][bucket] = count
    return {state: _split(steps) for state, steps in found.items()}


def read_load(period: Period, measures: Collection[Load], subjects: Collection[str]) -> dict[Load, Steps[float | None]]:
    """The means of sampled numbers, summed over the subjects; None in steps without a sample.

    What has no row in a minute was 0 then, so all are divided by the samples of what is always sampled.
    """
    rows, samples = select(LoadRollUp, period), [0] * (2 * period.step_count)
    sampled = rows.filter(measure=Load.SLOTS.value, subject="").values_list("step")
    for step, count in sampled.annotate(Sum("samples")):
        samples[step] = count
    sums = {measure.value: [0] * len(samples) for measure in measures}
    chosen = rows.filter(measure__in=list(sums), subject__in=sorted(subjects)).values_list("measure", "step")
    for measure, step, total in chosen.annotate(Sum("total")):
        sums[measure][step] = total
    return {
        measure: _split([a / b if b else None for a, b in zip(sums[measure.value], samples, strict=True)])
        for measure in measures
    }


def sum_load(period: Period) -> tuple[dict[tuple[str, str], int], int]:
    """The sums of the period by measure and subject, and by what to divide them."""
    rows = select(LoadRollUp, period).filter(start__gte=period.start).values_list("measure", "subject")
    found = {(measure, subject): numbers for measure, subject, *numbers in rows.annotate(Sum("total"), Sum("samples"))}
    _total, samples = found.get((Load.SLOTS.value, ""), (0, 0))
    return {key: total for key, (total, _samples) in found.items()}, samples


def find_percentile(histogram: Histogram, share: float) -> float | None:
    """The bound in seconds below which this share of the times is; None without any."""
    wanted, seen = share * histogram.total(), 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= wanted:
            return get_bucket_seconds(bucket)
    return None


def merge(histograms: Iterable[Histogram]) -> Histogram:
    return sum(histograms, Counter[int]())


def iterate_hours(entity_types: Collection[str], since: datetime, until: datetime) -> Iterator[tuple[datetime, int]]:
    """Transitions of each hour."""
    rows = TransitionRollUp.objects.filter(
        resolution=Resolution.HOUR, start__gte=since, start__lt=until, entity_type__in=sorted(entity_types)
    )
    yield from rows.order_by().values_list("start").annotate(Sum("count"))
