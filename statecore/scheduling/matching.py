"""Matching of waiting workers to queued tasks, without claiming any."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import connection
from django.db.models import Count, Min, QuerySet

from ..kernel.clock import now
from ..kernel.constraints import SqlLiteral, is_live
from ..machines.task import State as TaskState
from ..machines.task import Task
from ..machines.worker import FINAL, SILENCE_LIMIT, State, Worker
from ..machines.workstream import State as WorkstreamState
from ..machines.workstream import Workstream
from ..records.hold import exclude_held
from ..transitions.entity_reader import read_entities
from .claim_search import claimable_params, list_claimable_sql

MAX_TASKS = 2_000  # a worker that only suits a task further back is not woken, and finds it with its next claim


def find_workers_to_wake(worker_ids: Sequence[str]) -> list[str]:
    """Return the workers that should repeat their waiting claim, in the given order.

    These are the workers that would get a queued task, each task counted for one worker only, and those that may no
    longer claim, so that their claim is refused.
    """
    with connection.cursor() as cursor:
        cursor.execute(list_claimable_sql(connection.vendor, MAX_TASKS), claimable_params(connection, now()))
        unassigned = Counter((tuple(json.loads(required)), workstream) for required, workstream in cursor.fetchall())
    # Every queued task is matched to all waiting workers, which the ORM takes three times as long to read.
    workers = {worker.pk: worker for worker in read_entities(Worker.objects.filter(pk__in=worker_ids))}
    return [pk for pk in worker_ids if pk not in workers or _assign(workers[pk], unassigned)]


def _assign(worker: Worker, unassigned: Counter[tuple[tuple[str, ...], str]]) -> bool:
    """Remove the tasks that this worker would claim from `unassigned`; return whether it must be woken."""
    if worker.reason_to_refuse():
        return not worker.is_suspended()
    room = worker.max_concurrent_tasks - worker.current_load
    found = False
    for kind, count in unassigned.items():
        if room and count and worker.reason_to_refuse_task(kind[1], kind[0]) is None:
            taken = min(room, count)
            unassigned[kind] -= taken
            room -= taken
            found = True
    return found


def select_working(at: datetime) -> QuerySet[Worker]:
    """Select the workers that take or run tasks and are not silent, in any order."""
    working: QuerySet[Worker] = Worker.objects.filter(is_live(FINAL), state__in=(State.IDLE, State.BUSY)).order_by()
    return working.filter(last_heartbeat__gte=at - SILENCE_LIMIT)


class Unserved(NamedTuple):
    """Queued tasks for which no live worker has the capabilities."""

    capabilities: tuple[str, ...]
    tasks: int
    runs: int
    since: datetime


def find_unserved(at: datetime) -> list[Unserved]:
    """Return the queued tasks, by required capabilities, that no live worker can take; without those that are held."""
    paused = Workstream.objects.filter(state=WorkstreamState.PAUSED)
    queued = Task.objects.filter(state=SqlLiteral(TaskState.QUEUED)).exclude(workstream__in=paused)
    groups = exclude_held(queued, at).order_by().values_list("required_capabilities")
    offered = [set(each) for each in select_working(at).values_list("capabilities", flat=True)]
    counted = groups.annotate(Count("pk"), Count("run", distinct=True), Min("state_entered_at"))
    return _merge(
        Unserved(tuple(sorted(required)), *rest) for required, *rest in counted if not _suits(required, offered)
    )


def _suits(required: Iterable[str], offered: list[set[str]]) -> bool:
    return any(capabilities.issuperset(required) for capabilities in offered)


def _merge(groups: Iterable[Unserved]) -> list[Unserved]:
    """Merge groups that differ only in the order of their capabilities; their runs may be the same ones."""
    merged: dict[tuple[str, ...], Unserved] = {}
    for each in groups:
        if known := merged.get(each.capabilities):
            since, runs = min(known.since, each.since), max(known.runs, each.runs)
            each = Unserved(each.capabilities, known.tasks + each.tasks, runs, since)
        merged[each.capabilities] = each
    return list(merged.values())
