"""The progress of runs in a list: how many of their tasks have finished and failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from django.core.cache import cache
from django.db.models import Count

from statecore.kernel.entity import Entity
from statecore.machines.task import FINAL, State, Task

from .time_limit import TimedOut, time_limit

KEPT_SECONDS = 86_400  # the counts of a run that has ended
SHORTLY = 3
LIMIT_SECONDS = 1.0  # a list without progress is better than none


class Progress(NamedTuple):
    ended: int
    total: int
    failed: int


def read_progress(runs: Iterable[Entity]) -> dict[str, Progress]:
    """By run; from one query over the tasks of those that are not in the cache."""
    keys = {f"progress:{run.pk}:{run.version}": run for run in runs}
    found: dict[str, Progress] = cache.get_many(list(keys))
    if missing := [run for key, run in keys.items() if key not in found]:
        counted = _count(missing)
        for key, run in keys.items():
            if run.pk in counted:
                found[key] = counted[run.pk]
                cache.set(key, counted[run.pk], KEPT_SECONDS if run.has_ended() else SHORTLY)
    return {keys[key].pk: progress for key, progress in found.items()}


def _count(runs: list[Entity]) -> dict[str, Progress]:
    """All tries of a task count as one, in the state of the newest."""
    tasks = Task.objects.filter(run__in=[run.pk for run in runs], successor=None).order_by()
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    try:
        with time_limit(LIMIT_SECONDS):
            for run, state, count in tasks.values_list("run", "state").annotate(count=Count("pk")):
                counts[run][state] = count
    except TimedOut:
        return {}
    return {run.pk: _sum(counts[run.pk]) for run in runs}


def _sum(by_state: dict[str, int]) -> Progress:
    ended = sum(count for state, count in by_state.items() if state in FINAL)
    return Progress(ended, sum(by_state.values()), by_state.get(State.FAILED, 0))
