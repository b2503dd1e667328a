"""Heartbeats of workers; the response contains the commands for the agent."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from .. import transitions
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.ids import is_valid_id
from ..kernel.refusals import NotFound, Refusal
from ..machines.worker import FINAL, State, Worker
from ..records.proof import NO_PROOF, Proof
from ..storage.rows import ready_cursor
from ..storage.sql_params import quote_states
from ..transitions import rights
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from .stop_commands import Holds, StopQuery, build_stop_query

LATER = {"postgresql": "GREATEST", "sqlite": "MAX"}
# Lasts until the end of the transaction, so the statement must be the only one in it. A crash of the server may lose
# the heartbeat; the next one replaces it.
ASYNCHRONOUS_COMMIT = " AND set_config('synchronous_commit', 'off', true) = 'off'"
# In these states a heartbeat fires a transition or is answered with a shutdown, which `record_heartbeat` does.
NEEDS_FULL_CALL = {*FINAL, State.UNRESPONSIVE}


def record_heartbeat(
    worker_id: str, *, actor: Actor, holds: Holds = None, within: UnitOfWork | None = None
) -> dict[str, Any]:
    """Record a heartbeat and return the worker's state and the commands for its agent.

    `holds` lists the task attempts the agent is working on, if it knows them. Raises NotFound and PermissionDenied.
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
    state, draining, commands = updated
    if state == State.UNRESPONSIVE:
        state = _recover(worker_id, actor, within)
    return _serialize_response(state, draining, commands)


def record_heartbeat_with_token(
    proof: Proof, worker_id: str, *, actor: Actor, holds: Holds = None
) -> dict[str, Any] | None:
    """Check the token and record the heartbeat in one statement.

    Returns None, without any effect, if the token is not valid or the heartbeat needs `record_heartbeat`.
    """
    updated = _update_heartbeat(worker_id, actor, build_stop_query(worker_id, holds), proof)
    return None if updated is None else _serialize_response(*updated)


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
    cursor = ready_cursor()
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


def drain_worker(worker_id: str, *, actor: Actor, within: UnitOfWork | None = None) -> None:
    """Give the worker no new tasks and shut it down once it holds none. Does nothing for a worker that has ended."""

    def drain(work: UnitOfWork) -> None:
        worker: Any = work.lock(Worker, worker_id)
        if worker.state in FINAL:
            return
        Worker.objects.filter(pk=worker_id).update(draining=True)
        if worker.state == State.IDLE:
            transitions.transition(
                Worker, worker_id, "shutdown_requested", actor=actor, reason="it was drained", within=work
            )

    run_in_transaction(drain, within=within)
