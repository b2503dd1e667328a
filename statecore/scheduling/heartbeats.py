"""Heartbeats: a worker says that it lives, and hears what it has to stop."""

from __future__ import annotations

import json
from typing import Any

from django.db import connection

from .. import door
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.refusals import NotFound, Refusal
from ..machines.worker import FINAL, State, Worker

LATER_AND_LENGTH = {"postgresql": ("GREATEST", "jsonb_array_length"), "sqlite": ("MAX", "json_array_length")}


def beat(worker_id: str, *, actor: Actor, tells: bool = True) -> dict[str, Any]:
    """One conditional UPDATE; a time that is older than what is known changes nothing.

    With `tells` false nobody is told what is returned here, so that it stays to be told.
    """
    found = _touch(worker_id, tells=tells)
    if found is None:
        worker = Worker.objects.filter(pk=worker_id).first()
        if worker is None:
            raise NotFound(f"there is no worker {worker_id!r}")
        return {"state": worker.state, "commands": [*worker.commands, {"shutdown": True}]}
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


def _touch(worker_id: str, *, tells: bool) -> tuple[str, bool, list[Any]] | None:
    at = now()
    later, length = LATER_AND_LENGTH[connection.vendor]
    told = f", commands_told = {length}(commands)" if tells else ""
    final = ", ".join(f"'{state}'" for state in sorted(FINAL))
    at_column: Any = connection.ops.adapt_datetimefield_value(at)
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE statecore_worker SET last_heartbeat = {later}(last_heartbeat, %s){told} "
            f"WHERE id = %s AND state NOT IN ({final}) RETURNING state, draining, commands",
            [at_column, worker_id],
        )
        rows = cursor.fetchall()
    for state, draining, commands in rows:
        return state, bool(draining), json.loads(commands)
    return None


def drain(worker_id: str, *, actor: Actor) -> None:
    """No new task for this worker; it is shut down as soon as it holds none."""
    if not Worker.objects.filter(pk=worker_id).exclude(state__in=FINAL).update(draining=True):
        raise NotFound(f"there is no live worker {worker_id!r}")
    worker = Worker.objects.get(pk=worker_id)
    if worker.state == State.IDLE:
        door.transition(Worker, worker_id, "shutdown_requested", actor=actor, reason="it was drained")
