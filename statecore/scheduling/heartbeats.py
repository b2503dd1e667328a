"""Heartbeats: a worker says that it lives, and hears what it has to stop."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from .. import door
from ..door import rights, rows
from ..door.perform import perform
from ..kernel.actors import Actor, Kind
from ..kernel.clock import now
from ..kernel.kept_cursor import ready_cursor
from ..kernel.many import quoted
from ..kernel.refusals import NotFound, Refusal
from ..kernel.ulid import is_valid_id
from ..machines.worker import FINAL, State, Worker
from ..records.proof import NOT_ASKED, Proof
from . import stopping
from .stopping import Holds, Question

LATER = {"postgresql": "GREATEST", "sqlite": "MAX"}
# Until the end of the transaction, which must be that of this statement alone.
LAZILY = " AND set_config('synchronous_commit', 'off', true) = 'off'"
# A worker in these is not only touched: something follows, or there is something to explain.
NOT_PLAIN = {*FINAL, State.UNRESPONSIVE}


def beat(worker_id: str, *, actor: Actor, holds: Holds = None) -> dict[str, Any]:
    """One conditional UPDATE; a time that is older than what is known changes nothing.

    `holds` is what the agent is at, as far as it says.
    """
    rights.require(actor, Worker.flow, "operate")
    asked = stopping.question(worker_id, holds)
    found = _touch(worker_id, actor, asked)
    if found is None:
        worker = Worker.objects.filter(pk=worker_id).first() if is_valid_id(worker_id) else None
        if worker is None:
            raise NotFound(f"there is no worker {worker_id!r}")
        rights.must_hold(actor, worker)
        return {"state": worker.state, "commands": [*stopping.asked_alone(asked), {"shutdown": True}]}
    state, draining, commands = found
    if state == State.UNRESPONSIVE:
        state = _recovered(worker_id, actor)
    return _told(state, draining, commands)


def beat_if(proof: Proof, worker_id: str, *, actor: Actor, holds: Holds = None) -> dict[str, Any] | None:
    """The same, if the token is good, which the same statement asks.

    None where it is not, and where the heartbeat is more than a plain one: then nothing has happened.
    """
    found = _touch(worker_id, actor, stopping.question(worker_id, holds), proof)
    return None if found is None else _told(*found)


def _told(state: str, draining: bool, commands: list[Any]) -> dict[str, Any]:
    return {"state": state, "commands": [*commands, {"shutdown": True}] if draining else commands}


def _recovered(worker_id: str, actor: Actor) -> str:
    try:
        outcome = door.transition(Worker, worker_id, "health_check_recovered", actor=actor)
    except Refusal:  # another heartbeat, or the end of the recovery window, was first
        return str(Worker.objects.get(pk=worker_id).state)
    return str(outcome.entity.state) if outcome.entity else State.UNRESPONSIVE


def _touch(
    worker_id: str, actor: Actor, asked: Question, proof: Proof = NOT_ASKED
) -> tuple[str, bool, list[Any]] | None:
    if not is_valid_id(worker_id):
        return None
    connection = connections[DEFAULT_DB_ALIAS]
    is_agent = actor.kind is Kind.AGENT
    at: Any = connection.ops.adapt_datetimefield_value(now())
    values = [at, worker_id, *([actor.name] if is_agent else ()), *proof.params, *asked.params]
    lazily = connection.vendor == "postgresql" and not connection.in_atomic_block
    cursor = ready_cursor()
    cursor.execute(_statement(connection.vendor, asked.sql, proof.sql, is_agent=is_agent, lazily=lazily), values)
    for state, draining, answer in cursor.fetchall():
        return state, bool(draining), asked.commands(answer)
    return None


@cache
def _statement(vendor: str, asked: str, proof: str, *, is_agent: bool, lazily: bool) -> str:
    """Lazily, it waits for no disk: what a crash of the server takes away, the next one says again."""
    # In the statement itself: whose worker it is costs no second one, nor what it has to stop.
    mine = " AND registered_by IN ('', %s)" if is_agent else ""
    proven = f" AND {proof}" if proof else ""
    other = quoted(NOT_PLAIN if proof else FINAL)
    return (
        f"UPDATE statecore_worker SET last_heartbeat = {LATER[vendor]}(last_heartbeat, %s) "
        f"WHERE id = %s AND state NOT IN ({other}){mine}{proven}{LAZILY if lazily else ''} "
        f"RETURNING state, draining, {asked}"
    )


def drain(worker_id: str, *, actor: Actor) -> None:
    """No new task for this worker; it is shut down as soon as it holds none. One that has gone is drained already."""

    def step() -> None:
        worker: Any = rows.lock(Worker, worker_id)
        if worker.state in FINAL:
            return
        Worker.objects.filter(pk=worker_id).update(draining=True)
        if worker.state == State.IDLE:
            door.transition(Worker, worker_id, "shutdown_requested", actor=actor, reason="it was drained")

    perform(step)
