"""Matching of waiting workers to queued tasks, without claiming any."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from django.db import connection

from ..kernel.clock import now
from ..machines.worker import Worker
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
    workers = Worker.objects.in_bulk(list(worker_ids))
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
