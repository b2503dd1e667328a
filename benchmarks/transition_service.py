"""The transition service as callers use it, without reactions, which benchmarks.claim measures."""

from __future__ import annotations

import tracemalloc
from typing import Any

from django.db import connection

from benchmarks.raw import Contender, Ids
from statecore import reactions, transitions
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM, Actor
from statecore.machines.task import Task
from statecore.machines.uet_worker import UetWorker

registry.reactions[:] = [each for each in registry.reactions if each not in reactions.REACTIONS]

AGENT = Actor.agent("bench")
REPORT = {"exit_code": 0, "attempt": 1}


def finish(ids: Ids) -> None:
    """running → validating: two guards, which read only the row."""
    for entity_id in ids:
        transitions.transition(Task, entity_id, "execution_completed", actor=AGENT, params=REPORT)


def queue(ids: Ids) -> None:
    """pending → queued: two guards with one query each."""
    for entity_id in ids:
        transitions.transition(Task, entity_id, "scheduler_assigned", actor=THE_SYSTEM)


def take_and_release() -> Contender:
    """IDLE ⇄ BUSY: no guards."""
    busy: set[str] = set()

    def run(ids: Ids) -> None:
        for entity_id in ids:
            trigger = "task_completed" if entity_id in busy else "task_assigned"
            transitions.transition(UetWorker, entity_id, trigger, actor=AGENT)
            busy.symmetric_difference_update((entity_id,))

    return run


def finish_many(ids: Ids) -> None:
    items = transitions.transition_many(Task, ids, "execution_completed", actor=AGENT, params=REPORT)
    assert all(item.outcome for item in items)  # noqa: S101 - refusals would distort the rate


def memory(ids: Ids) -> dict[str, Any]:
    """Returns bytes: the peak of the client during transitions, and what the server holds for the connection."""
    tracemalloc.start()
    finish(ids[:10])
    before, _peak = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    finish(ids[10:])
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(total_bytes) FROM pg_backend_memory_contexts")
        (server,) = cursor.fetchone()
    return {"client": peak - before, "server": int(server)}
