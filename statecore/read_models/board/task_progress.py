"""How far the running tasks are that report their progress."""

from __future__ import annotations

from datetime import datetime
from statistics import fmean
from typing import NamedTuple

from ...machines.task import Task
from .cached import Cached

MAX_TASKS = 1_000  # whose reports are averaged


class TaskProgress(NamedTuple):
    reported: int
    percent: int  # the mean


def _read(_at: datetime) -> TaskProgress:
    running = Task.objects.filter(state__in=sorted(Task.flow.renewed_in), progress__isnull=False).order_by()
    reports = running.values_list("progress", flat=True)[:MAX_TASKS]
    fractions = [each["fraction"] for each in reports if each.get("fraction") is not None]
    return TaskProgress(len(fractions), round(100 * fmean(fractions)) if fractions else 0)


cache = Cached(_read)
