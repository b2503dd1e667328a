"""When a run will probably end: a simulation of its open tasks, with the durations of past ones.

Only tasks count: gates and patches that finish after them do not. Tasks that wait for a decision are left out, and with
them all that depend on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from django.core.cache import cache
from django.db.models import Min, OuterRef, Subquery, Sum

from ...kernel.clock import now, rfc3339
from ...machines import worker
from ...machines.run import Run
from ...machines.run import State as RunState
from ...machines.task import LOST, State, Task
from ...machines.worker import Worker
from ...machines.workstream import DONE, Workstream
from ...records import DwellRollUp
from ...records.roll_up import Resolution, get_bucket_seconds
from ...records.task_attempt import TaskAttempt
from ...scheduling.expectations import LEARNT_FROM
from .schedule import Band, Work, forecast

CACHE_SECONDS = 10
MAX_PAST, MIN_PAST = 200, 5  # durations of finished tasks of the run
THIS_RUN, ALL_RUNS = "finished tasks of this run", "tasks of the last two weeks"


class Estimate(NamedTuple):
    """Without a band, `reason` states why the end cannot be estimated."""

    run: str
    at: datetime
    tasks_left: int
    undecided: int
    band: Band | None = None
    basis: str = ""
    reason: str = ""

    def end(self, seconds: float) -> datetime:
        return self.at + timedelta(seconds=seconds)

    @property
    def likely(self) -> datetime | None:
        return self.end(self.band.likely) if self.band else None

    @property
    def earliest(self) -> datetime | None:
        return self.end(self.band.earliest) if self.band else None

    @property
    def latest(self) -> datetime | None:
        return self.end(self.band.latest) if self.band else None

    def as_dict(self) -> dict[str, Any]:
        ends = {name: getattr(self, name) for name in ("earliest", "likely", "latest")}
        return {
            "run": self.run,
            "at": rfc3339(self.at),
            "tasks_left": self.tasks_left,
            "undecided": self.undecided,
            **{name: end and rfc3339(end) for name, end in ends.items()},
            "basis": self.basis,
            "reason": self.reason,
        }


def estimate_run(run: Run) -> Estimate:
    """Computed once in some seconds for all viewers."""
    key = f"estimate:{run.pk}:{run.version}"
    found: Estimate | None = cache.get(key)
    if found is None:
        found = _estimate(run, now())
        cache.set(key, found, CACHE_SECONDS)
    return found


def list_estimates(limit: int) -> list[Estimate]:
    """Of the runs that are under way, those that started last first."""
    runs = Run.objects.filter(state=RunState.RUNNING).order_by("-started_at")[:limit]
    return [estimate_run(run) for run in runs]


def _estimate(run: Run, at: datetime) -> Estimate:
    if run.state != RunState.RUNNING:
        return Estimate(run.pk, at, 0, 0, reason=f"the run is {run.state}")
    tasks = _read_open_tasks(run)
    undecided, works = _build_works(run, tasks, at)
    left = sum(work.takes_time for work in works)
    estimate = Estimate(run.pk, at, left, undecided)
    if not left:
        return estimate._replace(reason="no task is open that could continue without a decision")
    slots = _count_slots(run, sum(work.running_for is not None for work in works))
    if not slots:
        return estimate._replace(reason="no worker is active")
    past, basis = _read_durations(run)
    if not past:
        return estimate._replace(reason="no task has finished yet")
    band = forecast(works, slots, past, Random(f"{run.pk} {run.version}"))  # noqa: S311 - a stable estimate
    return estimate._replace(band=band, basis=basis)


def _read_open_tasks(run: Run) -> dict[str, tuple[str, str, datetime | None]]:
    """State, workstream and start of the newest tries that are not completed, by id."""
    rows = Task.objects.filter(run=run, successor=None).exclude(state=State.COMPLETED)
    return {pk: (state, stream, start) for pk, state, stream, start in rows.values_list(*_TASK_COLUMNS)}


_TASK_COLUMNS = ("pk", "state", "workstream_id", "started_at")


def _build_works(run: Run, tasks: dict[str, tuple[str, str, datetime | None]], at: datetime) -> tuple[int, list[Work]]:
    """The number of tasks that wait for a decision, and the open work: tasks, and the ends of their workstreams.

    A workstream starts after the ends of those it depends on; so a task has few dependencies, however many tasks those
    workstreams have.
    """
    before: dict[str, set[str]] = defaultdict(set)
    for task, other in _read_links(Task, run):
        if task in tasks and other in tasks:
            before[task].add(other)
    streams = set(Workstream.objects.filter(run=run).exclude(state__in=DONE).values_list("pk", flat=True))
    needs: dict[str, list[str]] = defaultdict(list)
    for stream, other in _read_links(Workstream, run):
        if other in streams:
            needs[stream].append(other)
    for pk, (_state, stream, _start) in tasks.items():
        before[pk].update(f"end of {other}" for other in needs[stream])
        before[f"end of {stream}"].add(pk)
    for stream in {other for others in needs.values() for other in others}:
        before[f"end of {stream}"].update(f"end of {other}" for other in needs[stream])
    lost = _spread({pk for pk, (state, *_rest) in tasks.items() if state in LOST}, before)
    places = {key: place for place, key in enumerate(key for key in before if key not in lost)}
    works = [
        Work([places[each] for each in before[key] if each in places], _running_for(tasks.get(key), at), key in tasks)
        for key in places
    ]
    return len(lost & tasks.keys()), works


def _running_for(task: tuple[str, str, datetime | None] | None, at: datetime) -> float | None:
    if task is None or task[0] not in (State.RUNNING, State.VALIDATING) or task[2] is None:
        return None
    return max(0.0, (at - task[2]).total_seconds())


def _spread(lost: set[str], before: dict[str, set[str]]) -> set[str]:
    """Adds everything that depends on these, directly or not."""
    after: dict[str, list[str]] = defaultdict(list)
    for key, others in before.items():
        for other in others:
            after[other].append(key)
    found, new = set(lost), list(lost)
    while new:
        more = [key for key in after[new.pop()] if key not in found]
        found.update(more)
        new += more
    return found


def _read_links(model: Any, run: Run) -> Iterable[tuple[str, str]]:
    """Dependent and dependency."""
    link = model._meta.get_field("depends_on")
    own, other = link.m2m_field_name(), link.m2m_reverse_field_name()
    rows = link.remote_field.through._default_manager.filter(**{f"{own}__run": run})
    return list(rows.values_list(f"{own}_id", f"{other}_id"))


def _count_slots(run: Run, running: int) -> int:
    """How many tasks of the run can run at once: its running ones and free workers, or its share of all workers."""
    active = Worker.objects.filter(state__in=(worker.State.IDLE, worker.State.BUSY))
    total = active.aggregate(slots=Sum("max_concurrent_tasks"), load=Sum("current_load"))
    slots, load = total["slots"] or 0, total["load"] or 0
    if not slots:
        return running
    others = Run.objects.filter(state=RunState.RUNNING)[:slots].count()
    found = max(running + max(0, slots - load), slots // max(1, others), 1)
    return int(min(found, run.max_parallel) if run.max_parallel else found)


def _read_durations(run: Run) -> tuple[list[float], str]:
    """Seconds from the first start of finished tasks to their end: of this run, or of all while it has too few."""
    first = TaskAttempt.objects.filter(task=OuterRef("pk")).order_by().values("task").annotate(at=Min("started_at"))
    rows = Task.objects.filter(run=run, state=State.COMPLETED, started_at__isnull=False)
    newest = rows.order_by("-pk").annotate(first=Subquery(first.values("at")))[:MAX_PAST]
    found = [
        max(0.001, (end - (begin or start)).total_seconds())
        for end, begin, start in newest.values_list("completed_at", "first", "started_at")
    ]
    if len(found) >= MIN_PAST:
        return found, THIS_RUN
    counts = DwellRollUp.objects.filter(
        resolution=Resolution.DAY,
        entity_type=Task.flow.entity_type,
        state=State.RUNNING,
        start__gte=now() - LEARNT_FROM,
    )
    buckets = list(counts.order_by("bucket").values_list("bucket").annotate(sum=Sum("count")))
    total = sum(count for _bucket, count in buckets)
    learnt = [
        get_bucket_seconds(bucket) for bucket, count in buckets for _ in range(max(1, round(count * MAX_PAST / total)))
    ]
    return (learnt, ALL_RUNS) if learnt else (found, THIS_RUN)
