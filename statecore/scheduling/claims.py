"""Claiming: a worker takes the tasks it can do, each with a lease and a fencing number."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from .. import door
from ..door import rights, rows
from ..door.work import current
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.links import answered
from ..kernel.many import listed
from ..kernel.refusals import GuardFailed, Invalid, Unmet
from ..kernel.ulid import is_valid_id
from ..machines import task as tasks
from ..machines.task import REPORTS, Task
from ..machines.worker import State, Worker
from ..machines.workstream import Workstream
from ..reactions import quiet
from .heartbeats import beat

A_WHILE = timedelta(seconds=10)
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


class Report(NamedTuple):
    """How a task ended, as its worker says."""

    task: str
    trigger: str
    params: Mapping[str, Any] = {}


class Exchanged(NamedTuple):
    """What became of each report, in their order, and the tasks that come next."""

    reports: list[door.Item]
    tasks: list[Task]


def claim(worker_id: str, *, actor: Actor, most: int | None = None) -> list[Task]:
    """The tasks this worker holds from now on: as many as it has room for, at most `most`; none when none is open."""
    return report_and_claim(worker_id, (), actor=actor, most=most).tasks


def report_and_claim(worker_id: str, reports: Sequence[Report], *, actor: Actor, most: int | None = None) -> Exchanged:
    """Report what is done and claim what comes next, in one transaction.

    A worker that would be idle only to be busy again stays busy. Each report is taken or refused by itself; where the
    worker may claim no more the reports are taken all the same. A task that only these reports make ready is claimed
    by the next call.
    """
    _check(reports, most)
    rights.require(actor, Worker.flow, "operate")
    answers: dict[Any, Any] = {}
    exchange = _Exchange(worker_id, reports, actor, most, answers)
    with answered(answers):
        *told, claimed = door.transition_in_turn(Task, exchange.turns(), actor=actor)
    if not claimed:
        beat(worker_id, actor=actor)
    held: list[Any] = [item.outcome.entity for item in claimed.values() if item.outcome]
    return Exchanged(
        [
            items.get(report.task) or door.not_there(Task, report.task)
            for items, report in zip(told, reports, strict=True)
        ],
        # One whose run was cancelled meanwhile is not held.
        [task for task in held if task.worker_id == worker_id],
    )


def _check(reports: Sequence[Report], most: int | None) -> None:
    errors = {}
    if most is not None and (type(most) is not int or most < 1):
        errors["max"] = ["must be a whole number, 1 or more."]
    if any(report.trigger not in REPORTS for report in reports):
        errors["reports"] = [f"must be {' or '.join(sorted(REPORTS))}."]
    if len({report.task for report in reports}) < len(reports):
        errors["reports"] = ["must name each task once."]
    if errors:
        raise Invalid(errors)


class _Exchange:
    """One call under way, from the locks of what is reported to the choice of what comes next."""

    def __init__(
        self, worker_id: str, reports: Sequence[Report], actor: Actor, most: int | None, answers: dict[Any, Any]
    ) -> None:
        self.worker_id, self.reports, self.actor, self.most, self.answers = worker_id, reports, actor, most, answers
        self.reported: dict[str, Any] = {}
        self.held: list[Any] = []
        self.worker: Any = None

    def turns(self) -> list[door.Turn]:
        reported = [
            door.Turn(partial(self._reported, report), report.trigger, report.params) for report in self.reports
        ]
        return [*reported, door.Turn(self._chosen, "worker_started", {"worker": self.worker_id})]

    def _reported(self, report: Report) -> list[Entity]:
        """The first locks them all. Before the worker: whoever holds a worker waits for no task."""
        if report is self.reports[0]:
            self._lock([each.task for each in self.reports if is_valid_id(each.task)])
        task = self.reported.get(report.task)
        return [task] if task else []

    def _lock(self, reported: list[str]) -> None:
        """What is to complete shares the quiet lock of its workstream along with that."""
        work, last, params = current(), "0", []
        if quiet.may_share() and all(report.trigger == "execution_completed" for report in self.reports):
            last, params = quiet.sharing(one=len(reported) == 1), [listed(reported, work.connection.vendor)]
        found, self.worker, shared = rows.lock_in_turn(Task, reported, Worker, self.worker_id, last, params)
        if shared:
            work.shared.update((Workstream, task.workstream_id) for task in found)
        self.reported = {task.pk: task for task in found}
        self.held = [task for task in found if task.worker_id == self.worker_id]

    def _chosen(self) -> list[Entity]:
        # What is reported is neither the worker nor queued.
        with current().reading_others():
            worker = self.worker or rows.lock(Worker, self.worker_id)
            rights.must_hold(self.actor, worker)
            self._note_that_it_lives(worker)
            worker = self.answers["worker", self.worker_id] = self._relieved(worker)
            if complaint := worker.why_not_at_all():
                if self.reports:
                    return []
                unmet = [Unmet("worker_unsuitable", f"worker {worker.pk} {complaint}", worker.pk)]
                raise GuardFailed("claim", unmet, **worker.standing())
            return _choose(worker, self.most, [*self.reported])

    def _note_that_it_lives(self, worker: Any) -> None:
        """A claim is a sign of life; one that leaves a busy worker busy would not be noted otherwise."""
        if self.reports and (at := now()) - worker.last_heartbeat > A_WHILE:
            worker.last_heartbeat = at
            Worker.objects.filter(pk=worker.pk).update(last_heartbeat=at)

    def _relieved(self, worker: Any) -> Any:
        """As it would be with the reports taken; only to be looked at."""
        let_go = sum(1 for task in self.held if task.state != tasks.State.RUNNING)
        if not let_go:
            return worker
        relieved = rows.copied(worker)
        relieved.current_load -= let_go
        if worker.state == State.BUSY and not relieved.current_load:
            relieved.__dict__["state"] = State.IDLE
        return relieved


def _choose(worker: Any, most: int | None, reported: list[str]) -> list[Entity]:
    """Beside the tasks that are free stands, where their quiet locks are shared, whether what is reported is quiet."""
    work, vendor = current(), current().connection.vendor
    room = worker.max_concurrent_tasks - worker.current_load
    beside, params = STANDING, []
    if work.shared:
        beside += f", {quiet.still_quiet(one=len(reported) == 1)}"
        params.append(listed(reported, vendor))
    params.append(json.dumps(worker.capabilities))
    near = ""
    if worker.affinity:
        near = NEAR[vendor]
        params.append(json.dumps(worker.affinity.get("workstreams", [])))
    most = min(room, most or room)
    # In words when it is one, which it mostly is: for a number it is not told the server would plan each time anew.
    condition = CHOICE.format(can=CAN[vendor], near=near, limit="1" if most == 1 else "%s")
    params += [most] if most > 1 else []
    found = rows.lock_chosen_with(Task, beside, condition, params)
    work.standings = {task.workstream_id: (state, of_run) for task, state, of_run, *_ in found}
    if found and work.shared and found[0][-1]:
        work.quiet = set(reported)
    return [task for task, *_ in found]
