"""Heartbeats: a worker says that it lives, and hears what it has to stop."""

from __future__ import annotations

from typing import Any

from django.db import connection

from .. import door
from ..door import rights, rows
from ..door.perform import perform
from ..kernel.actors import Actor, Kind
from ..kernel.clock import now
from ..kernel.many import quoted
from ..kernel.refusals import NotFound, Refusal
from ..kernel.ulid import is_valid_id
from ..machines.worker import FINAL, State, Worker
from . import stopping
from .stopping import Holds, Question

LATER = {"postgresql": "GREATEST", "sqlite": "MAX"}


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
    return {"state": state, "commands": [*commands, {"shutdown": True}] if draining else commands}


def _recovered(worker_id: str, actor: Actor) -> str:
    try:
        outcome = door.transition(Worker, worker_id, "health_check_recovered", actor=actor)
    except Refusal:  # another heartbeat, or the end of the recovery window, was first
        return str(Worker.objects.get(pk=worker_id).state)
    return str(outcome.entity.state) if outcome.entity else State.UNRESPONSIVE


def _touch(worker_id: str, actor: Actor, asked: Question) -> tuple[str, bool, list[Any]] | None:
    at_column: Any = connection.ops.adapt_datetimefield_value(now())
    # In the statement itself: whose worker it is costs no second one, nor what it has to stop.
    mine = " AND registered_by IN ('', %s)" if actor.kind is Kind.AGENT else ""
    if not is_valid_id(worker_id):
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE statecore_worker SET last_heartbeat = {LATER[connection.vendor]}(last_heartbeat, %s) "
            f"WHERE id = %s AND state NOT IN ({quoted(FINAL)}){mine} RETURNING state, draining, {asked.sql}",
            [at_column, worker_id, *([actor.name] if mine else ()), *asked.params],
        )
        rows = cursor.fetchall()
    for state, draining, answer in rows:
        return state, bool(draining), asked.commands(answer)
    return None


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
