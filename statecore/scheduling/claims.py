"""Claims: a worker takes tasks it can do, each with a lease and a fencing number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache, partial
from typing import Any, NamedTuple

from .. import transitions
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.ids import is_valid_id
from ..kernel.refusals import GuardFailed, Invalid, Unmet
from ..machines import task as tasks
from ..machines.task import (
    REPORTS,
    Task,
    its_run_has_room,
    its_workstream_is_not_paused,
    no_hold_covers_it,
    the_worker_takes_it,
)
from ..machines.worker import State, Worker
from ..machines.workstream import Workstream
from ..reactions import run_queues, tools, unobserved_completion
from ..storage.rows import copy_instance
from ..storage.sql_params import in_clause, in_param
from ..transitions import rights
from ..transitions.entity_reader import not_found, reader_of
from ..transitions.unit_of_work import UnitOfWork
from .claim_search import Found, find_next
from .heartbeats import record_heartbeat

HEARTBEAT_RENEWAL = timedelta(seconds=10)


class Report(NamedTuple):
    """How a task ended, as reported by its worker."""

    task: str
    trigger: str
    params: Mapping[str, Any] = {}


class Exchanged(NamedTuple):
    """The result of each report, in their order, and the claimed tasks."""

    reports: list[transitions.Item]
    tasks: list[Task]


def claim(worker_id: str, *, actor: Actor, most: int | None = None, within: UnitOfWork | None = None) -> list[Task]:
    """Claim as many tasks as the worker has room for, at most `most`; return an empty list if no task fits.

    Raises GuardFailed if the worker may not claim, for example because it is shut down.
    """
    return report_and_claim(worker_id, (), actor=actor, most=most, within=within).tasks


def report_and_claim(
    worker_id: str,
    reports: Sequence[Report],
    *,
    actor: Actor,
    most: int | None = None,
    within: UnitOfWork | None = None,
) -> Exchanged:
    """Report the results of tasks and claim the next ones, in one transaction.

    A worker that gets a new task stays busy instead of becoming idle for a moment. Each report is accepted or refused
    separately, even if the worker may not claim any more. Tasks that become ready through these reports are claimed by
    the next call.
    """
    _check(reports, most)
    rights.require(actor, Worker.flow, "operate")
    exchange = _Exchange(worker_id, reports, actor, most)
    *reported, claimed = transitions.transition_in_turn(Task, exchange.turns(), actor=actor, within=within)
    if not claimed:
        record_heartbeat(worker_id, actor=actor, within=within)
    held: list[Any] = [item.outcome.entity for item in claimed.values() if item.outcome]
    return Exchanged(
        [
            items.get(report.task) or transitions.missing_item(Task, report.task)
            for items, report in zip(reported, reports, strict=True)
        ],
        # Excludes tasks of a run that was cancelled in the same transaction.
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
    """One call in progress: locks the reported tasks and the worker, then chooses the next tasks."""

    def __init__(self, worker_id: str, reports: Sequence[Report], actor: Actor, most: int | None) -> None:
        self.worker_id, self.reports, self.actor, self.most = worker_id, reports, actor, most
        self.reported: dict[str, Any] = {}
        self.held: list[Any] = []
        self.worker: Any = None

    def turns(self) -> list[transitions.Turn]:
        reported = [
            transitions.Turn(partial(self._choose_reported, report), report.trigger, report.params, flush=False)
            for report in self.reports
        ]
        # Only tasks that the worker takes, that are neither held nor paused, and with room in their run are chosen.
        known = {the_worker_takes_it, no_hold_covers_it, its_workstream_is_not_paused, its_run_has_room}
        params = {"worker": self.worker_id}
        return [*reported, transitions.Turn(self._choose_next, "worker_started", params, known=known, flush=False)]

    def _choose_reported(self, report: Report, work: UnitOfWork) -> list[Entity]:
        """Return the reported task. For the first report, lock all reported tasks and then the worker.

        Every transaction takes these locks in this order, so that none waits for a task while it holds a worker.
        """
        if report is self.reports[0]:
            self._lock(work, [each.task for each in self.reports if is_valid_id(each.task)])
        task = self.reported.get(report.task)
        return [task] if task else []

    def _lock(self, work: UnitOfWork, reported: list[str]) -> None:
        """Lock the tasks and the worker, and take the shared locks of unobserved completions, in one statement."""
        share, params = "0", []
        completes = all(report.trigger == "execution_completed" for report in self.reports)
        if completes and unobserved_completion.may_share_lock(work):
            share = unobserved_completion.count_shared_locks_sql(one=len(reported) == 1)
            params = [in_param(reported, work.connection.vendor)]
        found, self.worker, shared = lock_tasks_and_worker(work, reported, self.worker_id, share, params)
        if shared:
            work.shared.update((Workstream, task.workstream_id) for task in found)
        self.reported = {task.pk: task for task in found}
        self.held = [task for task in found if task.worker_id == self.worker_id]

    def _choose_next(self, work: UnitOfWork) -> list[Entity]:
        # Staged reports concern neither the worker nor queued tasks.
        worker = self.worker or work.lock(Worker, self.worker_id, flush=False)
        rights.require_holder(self.actor, worker)
        self._renew_heartbeat(work, worker)
        worker = self._without_reported(worker)
        if complaint := worker.reason_to_refuse():
            # A suspended worker waits for its resumption as for a task.
            if self.reports or worker.is_suspended():
                return []
            unmet = [Unmet("worker_unsuitable", f"worker {worker.pk} {complaint}", worker.pk)]
            raise GuardFailed("claim", unmet, **worker.current_facts())
        return _choose(work, worker, self.most, [*self.reported], self.actor)

    def _renew_heartbeat(self, work: UnitOfWork, worker: Any) -> None:
        """Record the claim as a heartbeat if the last one is old. A busy worker that stays busy is not written else."""
        if self.reports and (at := now()) - worker.last_heartbeat > HEARTBEAT_RENEWAL:
            work.flush()
            worker.last_heartbeat = at
            Worker.objects.filter(pk=worker.pk).update(last_heartbeat=at)

    def _without_reported(self, worker: Any) -> Any:
        """Return a copy of the worker as it will be once the reports are applied."""
        released = sum(1 for task in self.held if task.state != tasks.State.RUNNING)
        if not released:
            return worker
        relieved = copy_instance(worker)
        relieved.current_load -= released
        if worker.state == State.BUSY and not relieved.current_load:
            relieved.__dict__["state"] = State.IDLE
        return relieved


def lock_tasks_and_worker(
    work: UnitOfWork, task_ids: list[str], worker_id: str, share: str, params: list[Any]
) -> tuple[list[Any], Any, Any]:
    """Lock tasks, then their worker, then evaluate `share`, in one statement; return all three."""
    if not is_valid_id(worker_id):
        raise not_found(Worker, worker_id)
    of_task, of_worker = reader_of(Task, work.connection.vendor), reader_of(Worker, work.connection.vendor)
    statement = _lock_tasks_and_worker_sql(work.connection.vendor, share, one=len(task_ids) == 1)
    found = work.query(statement, [in_param(task_ids, work.connection.vendor), worker_id, *params])
    if not found:
        raise not_found(Worker, worker_id)
    width = 1 + len(of_worker.names)
    locked = [work.remember(of_task, row[width:]) for row in found if row[width] is not None]
    return locked, work.remember(of_worker, found[0][1:width]), found[0][0]


@cache
def _lock_tasks_and_worker_sql(vendor: str, share: str, *, one: bool) -> str:
    """Return the statement. Each part counts the rows of the part before it, so that it starts when they are locked."""
    task, worker = reader_of(Task, vendor), reader_of(Worker, vendor)
    return (
        f"WITH tasks AS MATERIALIZED (SELECT {task.row_columns} FROM {task.table} AS row "
        f"WHERE row.id {in_clause(vendor, 1 if one else 2)} ORDER BY row.id{task.lock_clause}), "
        f"worker AS MATERIALIZED (SELECT {worker.row_columns} FROM {worker.table} AS row "
        f"WHERE row.id = %s AND (SELECT count(*) FROM tasks) >= 0{worker.lock_clause}) "
        f"SELECT CASE WHEN (SELECT count(*) FROM worker) > 0 THEN {share} END, worker.*, tasks.* "
        f"FROM worker LEFT JOIN tasks ON true"
    )


def _choose(work: UnitOfWork, worker: Any, most: int | None, reported: list[str], actor: Actor) -> list[Entity]:
    """Lock and return the next tasks, as many as the worker has room for and their tools and runs permit.

    A tool or run that permits fewer tasks than were found is left out of the next search, so that it keeps no other
    back.
    """
    room = worker.max_concurrent_tasks - worker.current_load
    most = min(room, most or room)
    chosen: list[Found] = []
    full: dict[str, set[str]] = {"tool": set(), "run_id": set()}
    while len(chosen) < most:
        found = find_next(work, worker, most - len(chosen), reported, [each.task.pk for each in chosen], full)
        used = Counter(each.task.tool for each in chosen)
        by_tools = tools.admit(work, [each.task for each in found.tasks], actor, earlier=used)
        limits = {each.task.run_id: each.limit for each in found.tasks if each.limit}
        started = Counter(each.task.run_id for each in chosen)
        kept = {task.pk for task in run_queues.admit(work, by_tools, limits, earlier=started)}
        chosen += [each for each in found.tasks if each.task.pk in kept]
        if not found.tasks and work.pending:
            work.flush()  # a reported task may have freed a place in its run
            continue
        if not found.tasks or (found.is_all and len(kept) == len(found.tasks)):
            break
        full["tool"] |= {each.task.tool for each in found.tasks if len(by_tools) < len(found.tasks)} - {""}
        full["run_id"] |= {task.run_id for task in by_tools if task.pk not in kept}
    work.claimed |= {each.task.pk for each in chosen}
    run_queues.move_on(work, Counter(each.queue for each in chosen if each.has_rivals))
    return [each.task for each in chosen]
