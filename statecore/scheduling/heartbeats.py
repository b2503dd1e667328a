"""Heartbeats: the holder of an entity keeps it by renewing it, and may report its progress.

All machines share `renew`. Workers have `record_heartbeat` besides, which also returns the commands for their agent: it
is the most frequent call, so it is one statement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import F, Value
from django.db.models.functions import Greatest

from .. import transitions
from ..kernel import registry
from ..kernel.actors import THE_SYSTEM, Actor
from ..kernel.clock import now, rfc3339
from ..kernel.constraints import is_live
from ..kernel.entity import Entity, HeartbeatEntity
from ..kernel.flow import Flow
from ..kernel.ids import is_valid_id
from ..kernel.refusals import LeaseLost, NotFound, Refusal, Unmet
from ..machines import task as tasks
from ..machines.task import Task
from ..machines.uet_worker import UetWorker
from ..machines.worker import FINAL, State, Worker
from ..records.proof import NO_PROOF, Proof
from ..storage.rows import ready_cursor
from ..storage.sql_params import quote_states
from ..transitions import rights
from ..transitions.entity_reader import not_found
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from .stop_commands import Holds, StopQuery, TaskAttempt, build_stop_query

log = structlog.get_logger(__name__)

BATCH = 500
# Clocks of hosts differ by less, if they are kept by a time server; only a greater difference is an error.
FUTURE_TOLERANCE = timedelta(seconds=10)
CONCURRENT_CHANGES = 5  # transitions of the entity between the two statements of a heartbeat
LATER = {"postgresql": "GREATEST", "sqlite": "MAX"}
# Lasts until the end of the transaction, so the statement must be the only one in it. A crash of the server may lose
# the heartbeat; the next one replaces it.
ASYNCHRONOUS_COMMIT = " AND set_config('synchronous_commit', 'off', true) = 'off'"
# In these states a heartbeat fires a transition or is answered with a shutdown, which `record_heartbeat` does.
NEEDS_FULL_CALL = {*FINAL, State.UNRESPONSIVE}


Progress = Mapping[str, Any]


def renew(
    model: type[HeartbeatEntity],
    entity_id: str,
    *,
    actor: Actor,
    attempt: int | None = None,
    progress: Progress | None = None,
    within: UnitOfWork | None = None,
) -> dict[str, Any]:
    """Record a heartbeat of the holder; return the state and the time at which it loses the entity without another.

    Raises NotFound, PermissionDenied, NotTheHolder, and LeaseLost if no agent holds it or another attempt has begun.
    """
    rights.require(actor, model.flow, "operate")
    for _try in range(CONCURRENT_CHANGES):
        entity = find_held(model, entity_id, actor, attempt)
        at = now()
        changed: dict[str, Any] = {"last_heartbeat": max(at, entity.created_at)}
        if progress is not None:
            changed |= _progress_fields(entity, stamp_progress(progress, at), at)
        unchanged = {"state": entity.state, "attempt": entity.attempt, "holder": entity.holder}
        if model.objects.filter(pk=entity_id, **unchanged).update(**changed):
            if isinstance(entity, UetWorker) and entity.quarantined_at is not None:
                run_in_transaction(partial(_end_quarantine, entity_id, actor), within=within)
            return _serialize_lease(entity, at)
    raise _lease_lost(entity, "it changes too often")


def stamp_progress(progress: Progress, at: datetime) -> dict[str, Any]:
    return {"fraction": progress.get("fraction"), "detail": progress.get("detail", ""), "at": rfc3339(at)}


def _progress_fields(entity: HeartbeatEntity, progress: dict[str, Any], at: datetime) -> dict[str, Any]:
    """Return the fields that store progress; one that is the same as before keeps the time since when it is."""
    before = entity.progress or {}
    if "since" in before and all(before[name] == progress[name] for name in ("fraction", "detail")):
        return {"progress": {**progress, "since": before["since"]}}
    changed: dict[str, Any] = {"progress": {**progress, "since": progress["at"]}}
    if isinstance(entity, Task):
        limit = entity.progress_limit()
        changed["progress_due_at"] = at + limit if limit else None
    return changed


def _serialize_lease(entity: HeartbeatEntity, at: datetime) -> dict[str, Any]:
    ends_at = entity.lease_ends_at(at)
    return {
        "state": entity.state,
        "attempt": entity.attempt,
        "lease_expires_at": ends_at and rfc3339(ends_at),
        "commands": [],
    }


def find_held(
    model: type[HeartbeatEntity], entity_id: str, actor: Actor, attempt: int | None, takes: str = "heartbeat"
) -> HeartbeatEntity:
    """Return the entity if the actor holds it. An entity without a holder is open to every agent.

    Raises NotFound, NotTheHolder, and LeaseLost with what the entity `takes` from its holder only.
    """
    entity: HeartbeatEntity | None = model.objects.filter(pk=entity_id).first() if is_valid_id(entity_id) else None
    if entity is None:
        raise not_found(model, entity_id)
    if attempt is not None and attempt != entity.attempt:
        raise _lease_lost(entity, f"the current attempt is {entity.attempt}, not {attempt}", takes)
    rights.require_holder(actor, entity)
    if entity.state not in entity.flow.renewed_in:
        raise _lease_lost(entity, f"it is {entity.state}", takes)
    if actor.holds and entity.holder and entity.is_free():
        raise _lease_lost(entity, "it was released after a time without heartbeats", takes)
    return entity


def _lease_lost(entity: Entity, why: str, takes: str = "heartbeat") -> LeaseLost:
    detail = f"{entity} takes no {takes}: {why}"
    return LeaseLost(takes, [Unmet(LeaseLost.code, detail, entity.pk)], **entity.current_facts())


def _end_quarantine(worker_id: str, actor: Actor, work: UnitOfWork) -> None:
    worker: Any = work.lock(UetWorker, worker_id)
    if worker.quarantined_at is not None and not worker.has_ended():
        transitions.amend(work, worker, {"quarantined_at": None}, actor=actor, reason="its heartbeat is back")


def repair_heartbeats() -> int:
    """Repair heartbeats and leases that are missing or in the future; return their number.

    The previous version writes no heartbeats of jobs while both run, and takes times from the clock of its host. A time
    in the future would hide that its holder is silent: from now on the usual limit counts.
    """
    flows = [flow for flow in registry.flows() if flow.renewed_in]
    repaired = sum(map(_repair_heartbeats_of, flows)) + _repair_leases()
    if repaired:
        log.warning("heartbeats_repaired", count=repaired)
    return repaired


def _repair_heartbeats_of(flow: Flow) -> int:
    at = now()
    live = flow.model.objects.filter(is_live(flow.final), state__in=sorted(flow.renewed_in))
    missing = int(live.filter(last_heartbeat=None).update(last_heartbeat=F("state_entered_at")))
    in_future = live.filter(last_heartbeat__gt=at + FUTURE_TOLERANCE).exclude(last_heartbeat=F("created_at"))
    return missing + int(in_future.update(last_heartbeat=Greatest(F("created_at"), Value(at))))


def _repair_leases() -> int:
    running = Task.objects.filter(is_live(Task.flow.final), state=tasks.State.RUNNING)
    ids = list(running.filter(started_at__gt=now() + FUTURE_TOLERANCE).values_list("pk", flat=True)[:BATCH])
    for task_id in ids:
        run_in_transaction(partial(_restart_lease, task_id))
    return len(ids)


def _restart_lease(task_id: str, work: UnitOfWork) -> None:
    task: Any = work.lock(Task, task_id)
    at = now()
    if task.state == tasks.State.RUNNING and task.started_at > at + FUTURE_TOLERANCE:
        changed = {"started_at": max(at, task.created_at)}
        transitions.amend(work, task, changed, actor=THE_SYSTEM, reason="its lease began in the future")


# Workers


def record_heartbeat(
    worker_id: str,
    *,
    actor: Actor,
    holds: Holds = None,
    progress: Mapping[TaskAttempt, Progress] | None = None,
    within: UnitOfWork | None = None,
) -> dict[str, Any]:
    """Record a heartbeat and return the worker's state and the commands for its agent.

    `holds` lists the task attempts the agent is working on, if it knows them, and `progress` what it reports about some
    of them. Raises NotFound, PermissionDenied and NotTheHolder.
    """
    rights.require(actor, Worker.flow, "operate")
    query = build_stop_query(worker_id, holds)
    updated = _update_heartbeat(worker_id, actor, query)
    if updated is None:
        worker = Worker.objects.filter(pk=worker_id).first() if is_valid_id(worker_id) else None
        if worker is None:
            raise NotFound(f"there is no worker {worker_id!r}")
        rights.require_holder(actor, worker)
        return {"state": worker.state, "commands": [*query.run(), {"shutdown": True}]}
    _store_progress(worker_id, progress or {})
    state, draining, commands = updated
    if state == State.UNRESPONSIVE:
        state = _recover(worker_id, actor, within)
    return _serialize_response(state, draining, commands)


def record_heartbeat_with_token(
    proof: Proof, worker_id: str, *, actor: Actor, holds: Holds = None
) -> dict[str, Any] | None:
    """Check the token and record the heartbeat in one statement.

    Return None, without any effect, if the token is not valid or the heartbeat needs `record_heartbeat`.
    """
    updated = _update_heartbeat(worker_id, actor, build_stop_query(worker_id, holds), proof)
    return None if updated is None else _serialize_response(*updated)


# All reports in one statement, because a worker may hold many tasks. Progress that is the same as before keeps the time
# since when it is, and when it is due to change.
STORE_PROGRESS = {
    "postgresql": (
        "SET last_heartbeat = %s, progress = reported.progress || jsonb_build_object('since', CASE WHEN {same} "
        "THEN row.progress -> 'since' ELSE reported.progress -> 'at' END), progress_due_at = CASE WHEN {same} "
        "THEN row.progress_due_at ELSE %s::timestamptz + {limit} * interval '1 second' END "
        "FROM jsonb_to_recordset(%s::jsonb) AS reported(id text, attempt integer, progress jsonb) "
        "WHERE row.id = reported.id AND row.attempt = reported.attempt AND row.worker_id = %s"
    ),
    "sqlite": (
        "SET last_heartbeat = %s, progress = json_patch(reported.value -> 'progress', json_object('since', CASE WHEN "
        "{same} THEN row.progress ->> 'since' ELSE reported.value ->> '$.progress.at' END)), progress_due_at = CASE "
        "WHEN {same} THEN row.progress_due_at "
        "ELSE strftime('%%Y-%%m-%%d %%H:%%M:%%f', %s, '+' || {limit} || ' seconds') END "
        "FROM json_each(%s) AS reported WHERE row.id = reported.value ->> 'id' "
        "AND row.attempt = reported.value ->> 'attempt' AND row.worker_id = %s"
    ),
}
SAME_PROGRESS = {
    "postgresql": (
        "(row.progress ? 'since' AND row.progress -> 'fraction' = reported.progress -> 'fraction' "
        "AND row.progress -> 'detail' = reported.progress -> 'detail')"
    ),
    "sqlite": (
        "(row.progress ->> 'since' IS NOT NULL "
        "AND row.progress ->> 'fraction' IS reported.value ->> '$.progress.fraction' "
        "AND row.progress ->> 'detail' = reported.value ->> '$.progress.detail')"
    ),
}


@cache
def _progress_sql(vendor: str, default_seconds: int) -> str:
    limit = f"coalesce(nullif(row.progress_timeout_sec, 0), nullif({default_seconds}, 0))"
    change = STORE_PROGRESS[vendor].format(same=SAME_PROGRESS[vendor], limit=limit)
    return f"UPDATE {Task._meta.db_table} AS row {change}"


def _store_progress(worker_id: str, progress: Mapping[TaskAttempt, Progress]) -> None:
    """Store the progress of tasks that the worker holds; the response names the others to stop."""
    if not progress:
        return
    connection, at = connections[DEFAULT_DB_ALIAS], now()
    reported = [
        {"id": task_id, "attempt": attempt, "progress": stamp_progress(each, at)}
        for (task_id, attempt), each in progress.items()
    ]
    changed_at: Any = connection.ops.adapt_datetimefield_value(at)
    with connection.cursor() as cursor:
        statement = _progress_sql(connection.vendor, settings.STATECORE_PROGRESS_SECONDS)
        cursor.execute(statement, [changed_at, changed_at, json.dumps(reported), worker_id])


def _serialize_response(state: str, draining: bool, commands: list[Any]) -> dict[str, Any]:
    return {"state": state, "commands": [*commands, {"shutdown": True}] if draining else commands}


def _recover(worker_id: str, actor: Actor, within: UnitOfWork | None) -> str:
    """Fire `health_check_recovered` and return the resulting state."""
    try:
        outcome = transitions.transition(Worker, worker_id, "health_check_recovered", actor=actor, within=within)
    except Refusal:  # a concurrent heartbeat recovered it, or its recovery window ended
        return str(Worker.objects.get(pk=worker_id).state)
    return str(outcome.entity.state) if outcome.entity else State.UNRESPONSIVE


def _update_heartbeat(
    worker_id: str, actor: Actor, query: StopQuery, proof: Proof = NO_PROOF
) -> tuple[str, bool, list[Any]] | None:
    """Update the row and return its state, draining and the commands; None if no row matches.

    A time before the stored one is ignored.
    """
    if not is_valid_id(worker_id):
        return None
    connection = connections[DEFAULT_DB_ALIAS]
    is_agent = actor.holds
    at: Any = connection.ops.adapt_datetimefield_value(now())
    values = [at, worker_id, *([actor.identity] if is_agent else ()), *proof.params, *query.params]
    asynchronous = connection.vendor == "postgresql" and not connection.in_atomic_block
    statement = _update_sql(connection.vendor, query.sql, proof.sql, is_agent=is_agent, asynchronous=asynchronous)
    cursor = ready_cursor(connection)
    cursor.execute(statement, values)
    for state, draining, value in cursor.fetchall():
        return state, bool(draining), query.parse(value)
    return None


@cache
def _update_sql(vendor: str, stop_query: str, proof: str, *, is_agent: bool, asynchronous: bool) -> str:
    """Return the statement that checks ownership and token, updates the row and reads the stop commands.

    It is one statement because heartbeats are the most frequent call.
    """
    owned = " AND holder IN ('', %s)" if is_agent else ""
    proven = f" AND {proof}" if proof else ""
    excluded = quote_states(NEEDS_FULL_CALL if proof else FINAL)
    return (
        f"UPDATE statecore_worker SET last_heartbeat = {LATER[vendor]}(last_heartbeat, %s) "
        f"WHERE id = %s AND state NOT IN ({excluded}){owned}{proven}{ASYNCHRONOUS_COMMIT if asynchronous else ''} "
        f"RETURNING state, draining, {stop_query}"
    )


def drain_worker(worker_id: str, *, actor: Actor, reason: str = "", within: UnitOfWork | None = None) -> None:
    """Give the worker no new tasks and shut it down once it holds none. Does nothing for a worker that has ended."""

    def drain(work: UnitOfWork) -> None:
        worker: Any = work.lock(Worker, worker_id)
        if worker.state in FINAL:
            return
        Worker.objects.filter(pk=worker_id).update(draining=True)
        if worker.state in (State.IDLE, State.SUSPENDED):
            why = reason or "it was drained"
            transitions.transition(Worker, worker_id, "shutdown_requested", actor=actor, reason=why, within=work)

    run_in_transaction(drain, within=within)
