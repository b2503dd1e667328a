"""Sweeps for tasks and workers past a time limit.

Each sweep handles one batch and may run concurrently with itself; a missed sweep is made up by the next one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import structlog
from django.db import connection
from django.db.models import OuterRef

from .. import transitions
from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now
from ..kernel.constraints import SqlLiteral, is_live
from ..kernel.entity import Entity
from ..machines import run, task, worker, workstream
from ..machines.run import OnFailure, Run
from ..machines.task import Task
from ..machines.worker import RECOVERY_WINDOW, SILENCE_LIMIT, Worker
from ..machines.workstream import Workstream
from ..reactions.tasks import reevaluate as reevaluate_tasks
from ..storage.keyset_scan import next_by_entry, next_by_time
from ..storage.links import has_part, related_column
from ..storage.sql_params import quote_states
from ..transitions.unit_of_work import run_in_transaction

log = structlog.get_logger(__name__)

BATCH = 500
# Where the last sweep of this process stopped, by trigger. The next one continues there, so that entities that refuse
# do not keep it from reaching the others.
_places: dict[str, Any] = {}


def time_out_tasks() -> int:
    """Fail running tasks with an expired lease; they are retried while retries remain."""
    return _sweep(Task, task.State.RUNNING, "lease_expires_at", now(), "timeout_exceeded")


# A heartbeat at `{moment}` is older than the limit of the task and its grace.
IS_LATE = {
    "postgresql": "{moment} < %s - row.heartbeat_sec * interval '{grace} seconds'",
    "sqlite": "(julianday(%s) - julianday({moment})) * 86400 > row.heartbeat_sec * {grace}",
}


def _build_silent_condition() -> str:
    """Return the condition on a task whose agent is silent: neither it nor its worker has sent a heartbeat in time."""
    own, workers = (
        IS_LATE[connection.vendor].format(moment=f"{name}.last_heartbeat", grace=task.HEARTBEAT_GRACE)
        for name in ("row", "worker")
    )
    in_time = f"SELECT 1 FROM {Worker._meta.db_table} AS worker WHERE worker.id = row.worker_id AND NOT ({workers})"
    return f"WHERE row.state = {quote_states([task.State.RUNNING])} AND {own} AND NOT EXISTS ({in_time})"


def fail_silent_tasks() -> int:
    """Fail running tasks whose agent has stopped sending heartbeats; they are retried while retries remain.

    No guard checks the heartbeat again, so the condition is part of the query that locks.
    """
    silent = _build_silent_condition()
    at: Any = connection.ops.adapt_datetimefield_value(now())
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {Task._meta.db_table} AS row {silent})", [at, at])
        if not cursor.fetchone()[0]:
            return 0
    condition = f"{silent} ORDER BY row.last_heartbeat LIMIT %s"
    turn = transitions.Turn(
        lambda work: work.lock_where(Task, condition, [at, at, BATCH]),
        "execution_failed",
        {"error": "its agent stopped sending heartbeats"},
        reason="its agent stopped sending heartbeats",
    )
    (items,) = transitions.transition_in_turn(Task, [turn], actor=THE_SYSTEM)
    return sum(1 for item in items.values() if item.outcome)


def fail_blocked_tasks() -> int:
    """Fail tasks that were blocked for longer than their dependency timeout, in runs that do not wait for decisions."""
    where = {"run__on_failure": OnFailure.FAIL, "workstream__state__in": sorted(workstream.STARTED)}
    return _sweep(Task, task.State.BLOCKED, "dependency_due_at", now(), "dependency_timeout_exceeded", **where)


def fail_stopped_runs() -> int:
    """Fail runs in which nothing can continue, where their plan says so; return their number."""
    running = Run.objects.filter(is_live(run.FINAL), state=run.State.RUNNING, on_failure=OnFailure.FAIL)
    ids = next_by_entry(running, _places, "nothing_can_continue", BATCH)
    # The guard checks the rest. This excludes nearly all, by the index of open tasks.
    active = Task.objects.filter(workstream=OuterRef("pk"), state__in=sorted(task.ACTIVE)).exclude(state="completed")
    busy = Workstream.objects.filter(is_live(workstream.FINAL), has_part(active), run=OuterRef("pk"))
    quiet = list(Run.objects.filter(~has_part(busy), pk__in=ids).values_list("pk", flat=True)) if ids else []
    items = transitions.transition_many(Run, quiet, "nothing_can_continue", actor=THE_SYSTEM) if quiet else []
    return sum(1 for item in items if item.outcome and item.outcome.changed)


def queue_retries() -> int:
    """Queue tasks after their retry delay."""
    return _sweep(Task, task.State.RETRYING, "retry_at", now(), "retry_delay_elapsed")


def start_due_runs() -> int:
    """Start the runs that were to start automatically, and not before now."""
    due = Run.objects.filter(state=run.State.PENDING, starts_automatically=True, not_before__lte=now())
    ids = next_by_time(due, "not_before", _places, "run_started", BATCH)
    items = transitions.transition_many(Run, ids, "run_started", actor=THE_SYSTEM) if ids else []
    return sum(1 for item in items if item.outcome)


def queue_due_tasks() -> int:
    """Re-evaluate the pending tasks that were not to be queued before now, in workstreams that have started."""
    # The state of each workstream is read by its id: as a join, SQLite would read all tasks of these workstreams.
    due = Task.objects.alias(workstream_state=related_column(Task, "workstream", "state")).filter(
        state=SqlLiteral(task.State.PENDING),
        not_before__isnull=False,
        not_before__lte=now(),
        workstream_state__in=sorted(workstream.WORKING),
    )
    ids = next_by_time(due, "not_before", _places, "scheduler_assigned", BATCH)
    if ids:
        run_in_transaction(lambda work: reevaluate_tasks(work, dict.fromkeys(ids)))
    return len(ids)


def resume_paused() -> int:
    """Resume workstreams and workers at the end of their pause."""
    workstreams = _sweep(Workstream, workstream.State.PAUSED, "paused_until", now(), "workstream_resumed")
    return workstreams + _sweep(Worker, worker.State.SUSPENDED, "suspended_until", now(), "worker_resumed")


def mark_unresponsive_workers() -> int:
    """Mark busy workers that missed two heartbeats."""
    return _sweep(Worker, worker.State.BUSY, "last_heartbeat", now() - SILENCE_LIMIT, "health_check_timeout")


def end_lost_workers() -> int:
    """End workers without a heartbeat in the recovery window; the tasks of unresponsive ones are retried."""
    before = now() - RECOVERY_WINDOW
    lost = _sweep(Worker, worker.State.UNRESPONSIVE, "last_heartbeat", before, "max_timeout_exceeded")
    stale = Worker.objects.filter(is_live(worker.FINAL), state=worker.State.IDLE, last_heartbeat__lte=before)
    return lost + (_shut_down_idle(before) if stale.exists() else 0)


def _shut_down_idle(before: datetime) -> int:
    """Shut down idle workers without a heartbeat since `before`; return their number.

    No guard checks the heartbeat of an idle worker again, so the condition is part of the query that locks.
    """
    idle = f"row.state = {quote_states([worker.State.IDLE])}"
    condition = f"WHERE {idle} AND row.last_heartbeat < %s ORDER BY row.last_heartbeat LIMIT %s"
    before_value: Any = connection.ops.adapt_datetimefield_value(before)
    turn = transitions.Turn(
        lambda work: work.lock_where(Worker, condition, [before_value, BATCH]),
        "shutdown_requested",
        reason="idle without a heartbeat",
    )
    (items,) = transitions.transition_in_turn(Worker, [turn], actor=THE_SYSTEM)
    return sum(1 for item in items.values() if item.outcome)


def _sweep(model: type[Entity], state: str, column: str, before: datetime, trigger: str, **where: Any) -> int:
    """Fire the trigger for one batch; the guards re-check each entity, so concurrent sweeps are harmless."""
    due = model.objects.filter(is_live(model.flow.final), state=state, **{f"{column}__lte": before}, **where)
    ids = next_by_time(due, column, _places, trigger, BATCH)
    if not ids:
        return 0
    items = transitions.transition_many(model, ids, trigger, actor=THE_SYSTEM)
    changed = sum(1 for item in items if item.outcome and item.outcome.changed)
    log.info("swept", trigger=trigger, due=len(ids), changed=changed)
    return changed
