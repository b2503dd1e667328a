"""What happens when time has passed: sweeps that are bounded, may run twice at once, and lose nothing when missed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import structlog
from django.db import connection

from .. import door
from ..door import rows
from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.indexes import is_live
from ..kernel.strides import next_by_time
from ..machines import task, worker
from ..machines.task import Task
from ..machines.worker import RECOVERY_WINDOW, SILENCE_LIMIT, Worker

log = structlog.get_logger(__name__)

BATCH = 500
# Where this process stopped last time, by trigger, so that many who are refused do not hide the others.
_places: dict[str, Any] = {}


def time_out_tasks() -> int:
    """Tasks that ran longer than they may: an execution failure, retried while retries remain."""
    return _move(Task, task.State.RUNNING, "lease_expires_at", now(), "timeout_exceeded")


def queue_retries() -> int:
    """Tasks whose back-off is over."""
    return _move(Task, task.State.RETRYING, "retry_at", now(), "retry_delay_elapsed")


def miss_heartbeats() -> int:
    """Busy workers that missed two heartbeats."""
    return _move(Worker, worker.State.BUSY, "last_heartbeat", now() - SILENCE_LIMIT, "health_check_timeout")


def give_up_workers() -> int:
    """Workers that did not come back within the recovery window; the tasks of a busy one are retried."""
    before = now() - RECOVERY_WINDOW
    lost = _move(Worker, worker.State.UNRESPONSIVE, "last_heartbeat", before, "max_timeout_exceeded")
    stale = Worker.objects.filter(is_live(worker.FINAL), state=worker.State.IDLE, last_heartbeat__lte=before)
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


def _move(model: type[Entity], state: str, column: str, before: datetime, trigger: str) -> int:
    """One batch of what is due; the guards say once more whether it is, so that two sweeps harm nothing."""
    due = model.objects.filter(is_live(model.flow.final), state=state, **{f"{column}__lte": before})
    ids = next_by_time(due, column, _places, trigger, BATCH)
    if not ids:
        return 0
    items = door.transition_many(model, ids, trigger, actor=THE_SYSTEM)
    moved = sum(1 for item in items if item.outcome and item.outcome.changed)
    log.info("swept", trigger=trigger, due=len(ids), moved=moved)
    return moved
