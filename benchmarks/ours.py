"""The door, as a caller uses it. What follows for other machines is left out here: benchmarks.claim measures that."""

from __future__ import annotations

import tracemalloc
from typing import Any

from django.db import connection

from benchmarks.raw import Contender, Ids
from statecore import door, reactions
from statecore.kernel import registry
from statecore.kernel.actors import THE_SYSTEM, Actor
from statecore.machines.task import Task
from statecore.machines.uet_worker import UetWorker

registry.reactions.remove(reactions.follow)

AGENT = Actor.agent("bench")
REPORT = {"exit_code": 0, "attempt": 1}


def finish(ids: Ids) -> None:
    """running → validating: two guards, both about the row itself."""
    for entity_id in ids:
        door.transition(Task, entity_id, "execution_completed", actor=AGENT, params=REPORT)


def queue(ids: Ids) -> None:
    """pending → queued: two guards, each a query of its own."""
    for entity_id in ids:
        door.transition(Task, entity_id, "scheduler_assigned", actor=THE_SYSTEM)


def take_and_release() -> Contender:
    """IDLE ⇄ BUSY: no guards."""
    busy: set[str] = set()

    def run(ids: Ids) -> None:
        for entity_id in ids:
            trigger = "task_completed" if entity_id in busy else "task_assigned"
            door.transition(UetWorker, entity_id, trigger, actor=AGENT)
            busy.symmetric_difference_update((entity_id,))

    return run


def finish_many(ids: Ids) -> None:
    items = door.transition_many(Task, ids, "execution_completed", actor=AGENT, params=REPORT)
    assert all(item.outcome for item in items)  # noqa: S101 - a refusal would be fast and wrong


def memory(ids: Ids) -> dict[str, Any]:
    """Bytes: the most that moves needed here at a time, and what the server holds for this connection."""
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
