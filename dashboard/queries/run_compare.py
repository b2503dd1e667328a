"""Two runs side by side: which tasks were slower, ended differently, or are in one of them only.

Tasks are the same if their ids are, without the id of their run and the number of their try.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NamedTuple

from statecore.machines.run import Run
from statecore.machines.task import State, Task

MAX_TASKS = 30_000  # of each run
MAX_ROWS = 50  # of each list
MAX_RUNS = 20  # to choose from
NOTABLE = timedelta(seconds=1)  # smaller differences are left out
TRY = re.compile(r":\d+$")


class Side(NamedTuple):
    pk: str
    state: str
    duration: timedelta | None


class Row(NamedTuple):
    name: str
    here: Side | None
    there: Side | None

    @property
    def slower_by(self) -> timedelta:
        """How much longer it took here; nothing where it has not started in both."""
        here, there = (side and side.duration for side in (self.here, self.there))
        return timedelta(0) if here is None or there is None else here - there


class Section(NamedTuple):
    title: str
    rows: list[Row]
    total: int


def list_others(run: Run) -> list[Run]:
    """Runs of the same phase, newest first."""
    others = Run.objects.filter(phase=run.phase_id).exclude(pk=run.pk).order_by("-created_at")
    return list(others.only("pk", "state", "created_at", "version")[:MAX_RUNS])


def compare(here: Run, there: Run, at: datetime) -> list[Section]:
    """`at` is the end of tasks that have not finished."""
    left, right = _read_tasks(here, at), _read_tasks(there, at)
    rows = [Row(name, left.get(name), right.get(name)) for name in {**left, **right}]
    both = [row for row in rows if row.here and row.there]
    failed = [row for row in both if _failed(row.here) and not _failed(row.there)]
    differ = [row for row in both if row.here and row.there and row.here.state != row.there.state]
    slower = sorted((row for row in both if row.slower_by >= NOTABLE), key=lambda row: row.slower_by, reverse=True)
    faster = sorted((row for row in both if -row.slower_by >= NOTABLE), key=lambda row: row.slower_by)
    return [
        _cut(f"Failed here, not in {there.pk}", failed),
        _cut(f"Slower than in {there.pk}", slower),
        _cut(f"Faster than in {there.pk}", faster),
        _cut("In another state", [row for row in differ if row not in failed]),
        _cut("Only in this run", [row for row in rows if not row.there]),
        _cut(f"Only in {there.pk}", [row for row in rows if not row.here]),
    ]


def _failed(side: Side | None) -> bool:
    return side is not None and side.state == State.FAILED


def _cut(title: str, rows: list[Row]) -> Section:
    return Section(title, rows[:MAX_ROWS], len(rows))


def _read_tasks(run: Run, at: datetime) -> dict[str, Side]:
    columns = ("pk", "state", "started_at", "completed_at", "retry_of_id")
    found = {}
    for pk, state, start, end, old in (
        Task.objects.filter(run=run, successor=None).order_by("pk").values_list(*columns)[:MAX_TASKS]
    ):
        name = pk.removeprefix(run.pk).lstrip("-:._") or pk
        found[TRY.sub("", name) if old else name] = Side(pk, state, (end or at) - start if start else None)
    return found
