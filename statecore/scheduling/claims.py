"""Claiming: a worker takes the tasks it can do, each with a lease and a fencing number."""

from __future__ import annotations

import json
from typing import Any

from .. import door
from ..door import rights, rows
from ..door.work import current
from ..kernel.actors import Actor
from ..kernel.entity import Entity
from ..kernel.links import answered
from ..kernel.refusals import GuardFailed, Invalid, Unmet
from ..machines.task import Task
from ..machines.worker import Worker
from .heartbeats import beat

# Highest priority first, then the one that has waited longest. What another claim has locked is not waited for.
CHOICE = "WHERE row.state = 'queued'{can}{near} ORDER BY row.priority DESC, row.state_entered_at, row.id LIMIT {limit}"
CAN = {
    # By itself the planner takes containment for a rare thing, and sorts the whole queue to find it.
    "postgresql": " AND CASE WHEN row.required_capabilities <@ %s::jsonb THEN true ELSE false END",
    "sqlite": " AND NOT EXISTS (SELECT 1 FROM json_each(row.required_capabilities) AS needed "
    "WHERE needed.value NOT IN (SELECT value FROM json_each(%s)))",
}
NEAR = {
    "postgresql": " AND row.workstream_id = ANY(SELECT jsonb_array_elements_text(%s::jsonb))",
    "sqlite": " AND row.workstream_id IN (SELECT value FROM json_each(%s))",
}

# The states of the workstream and the run, which the reactions to a start ask for.
STANDING = (
    ", (SELECT workstream.state FROM statecore_workstream AS workstream WHERE workstream.id = row.workstream_id)"
    ", (SELECT run.state FROM statecore_run AS run WHERE run.id = row.run_id)"
)


def claim(worker_id: str, *, actor: Actor, most: int | None = None) -> list[Task]:
    """The tasks this worker holds from now on: as many as it has room for, at most `most`; none when none is open."""
    if most is not None and (type(most) is not int or most < 1):
        raise Invalid({"max": ["must be a whole number, 1 or more."]})
    rights.require(actor, Worker.flow, "operate")

    def choose() -> list[Entity]:
        worker: Any = rows.lock(Worker, worker_id)
        rights.must_hold(actor, worker)
        _may_claim(worker)
        answers["worker", worker_id] = worker
        return _choose(worker, most)

    answers: dict[Any, Any] = {}
    with answered(answers):
        items = door.transition_chosen(Task, choose, "worker_started", actor=actor, params={"worker": worker_id})
    if not items:
        beat(worker_id, actor=actor, tells=False)
    held: list[Any] = [item.outcome.entity for item in items.values() if item.outcome]
    # One whose run was cancelled meanwhile is not held.
    return [task for task in held if task.worker_id == worker_id]


def _may_claim(worker: Any) -> None:
    if complaint := worker.why_not_at_all():
        unmet = [Unmet("worker_unsuitable", f"worker {worker.pk} {complaint}", worker.pk)]
        raise GuardFailed("claim", unmet, **worker.standing())


def _choose(worker: Any, most: int | None) -> list[Entity]:
    vendor = current().connection.vendor
    room = worker.max_concurrent_tasks - worker.current_load
    params: list[Any] = [json.dumps(worker.capabilities)]
    near = ""
    if worker.affinity:
        near = NEAR[vendor]
        params.append(json.dumps(worker.affinity.get("workstreams", [])))
    most = min(room, most or room)
    # In words when it is one, which it mostly is: for a number it is not told the server would plan each time anew.
    condition = CHOICE.format(can=CAN[vendor], near=near, limit="1" if most == 1 else "%s")
    params += [most] if most > 1 else []
    found = rows.lock_chosen_with(Task, STANDING, condition, params)
    current().standings = {task.workstream_id: (state, of_run) for task, state, of_run in found}
    return [task for task, *_ in found]
