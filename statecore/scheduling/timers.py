"""What happens when time has passed: sweeps that are bounded, may run twice at once, and lose nothing when missed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import structlog
from django.db import connection
from django.db.models import QuerySet

from .. import door
from ..door import rows
from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..machines import task, worker
from ..machines.task import Task
from ..machines.worker import RECOVERY_WINDOW, SILENCE_LIMIT, Worker

log = structlog.get_logger(__name__)

BATCH = 500


def time_out_tasks() -> int:
    """Tasks that ran longer than they may: an execution failure, retried while retries remain."""
    return _move(Task, _at(task.State.RUNNING, Task, "lease_expires_at", now()), "timeout_exceeded")


def queue_retries() -> int:
    """Tasks whose back-off is over."""
    return _move(Task, _at(task.State.RETRYING, Task, "retry_at", now()), "retry_delay_elapsed")


def miss_heartbeats() -> int:
    """Busy workers that missed two heartbeats."""
    silent = _at(worker.State.BUSY, Worker, "last_heartbeat", now() - SILENCE_LIMIT)
    return _move(Worker, silent, "health_check_timeout")


def give_up_workers() -> int:
    """Workers that did not come back within the recovery window; the tasks of a busy one are retried."""
    before = now() - RECOVERY_WINDOW
    lost = _move(Worker, _at(worker.State.UNRESPONSIVE, Worker, "last_heartbeat", before), "max_timeout_exceeded")
    stale = _at(worker.State.IDLE, Worker, "last_heartbeat", before)
    return lost + (_shut_down_stale(before) if stale.exists() else 0)


def _shut_down_stale(before: datetime) -> int:
    """No guard asks once more whether an idle worker is stale: one that is heard from meanwhile is not chosen."""
    condition = "WHERE row.state = 'idle' AND row.last_heartbeat < %s ORDER BY row.last_heartbeat LIMIT %s"
    moment: Any = connection.ops.adapt_datetimefield_value(before)
    turn = door.Turn(
        lambda: rows.lock_chosen(Worker, condition, [moment, BATCH]),
        "shutdown_requested",
        reason="it was idle and not heard from",
    )
    (items,) = door.transition_in_turn(Worker, [turn], actor=THE_SYSTEM)
    return sum(1 for item in items.values() if item.outcome)


def _at(state: str, model: type[Entity], column: str, before: datetime) -> QuerySet[Any]:
    due: QuerySet[Any] = model.objects.filter(state=state, **{f"{column}__lte": before}).order_by(column)
    return due


def _move(model: type[Entity], due: QuerySet[Any], trigger: str) -> int:
    """One batch of what is due; the guards say once more whether it is, so that two sweeps harm nothing."""
    ids = list(due.values_list("pk", flat=True)[:BATCH])
    if not ids:
        return 0
    items = door.transition_many(model, ids, trigger, actor=THE_SYSTEM)
    moved = sum(1 for item in items if item.outcome and item.outcome.changed)
    log.info("swept", trigger=trigger, due=len(ids), moved=moved)
    return moved
