"""Queues of runs: opened when tasks are queued, and moved on when tasks start. No statement here waits for a lock.

A queue that another transaction has locked is left as it is: if that was wrong, `tend` repairs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from django.db import transaction
from django.db.models import Count, Exists, F, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from ..journal import EventKind
from ..kernel.constraints import SqlLiteral
from ..kernel.refusals import GuardFailed, Unmet
from ..machines import task as tasks
from ..machines.circuit_breaker import CircuitBreaker
from ..machines.run import FINAL, Run
from ..machines.run import State as RunState
from ..machines.task import Task
from ..records.run_queue import RunQueue
from ..storage.links import related_column
from ..storage.sql_params import in_clause, in_param
from ..transitions.change import Change
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction

Key = tuple[str, int]  # the run and the priority
QUEUES, RUNS, TASKS = RunQueue._meta.db_table, Run._meta.db_table, Task._meta.db_table
LATEST = f"(SELECT coalesce(max(other.turn), 0) FROM {QUEUES} AS other WHERE other.priority = queue.priority)"
STEP = f"1.0 / (SELECT run.weight FROM {RUNS} AS run WHERE run.id = queue.run_id)"
# The scalar maximum, and the lock of a statement that must not wait.
MAXIMUM = {"postgresql": "greatest", "sqlite": "max"}
SKIP_LOCKED = {"postgresql": " FOR NO KEY UPDATE SKIP LOCKED", "sqlite": ""}
HAS_ROOM = (
    f"(SELECT run.max_parallel = 0 OR run.max_parallel > (SELECT count(*) FROM {TASKS} AS held "
    f"WHERE held.run_id = run.id AND held.state = 'running') FROM {RUNS} AS run WHERE run.id = queue.run_id)"
)


# Queues


def key_of(task: Any) -> Key:
    return task.run_id, task.priority


def follow_priority(work: UnitOfWork, task: Any, changed: Collection[str]) -> None:
    """Let claims find a queued task with a new priority."""
    if "priority" in changed and task.state == tasks.State.QUEUED:
        open_queues(work, [key_of(task)])


def open_queues(work: UnitOfWork, keys: Iterable[Key]) -> None:
    """Let claims find the queued tasks of these runs and priorities."""
    wanted = set(keys)
    if not wanted:
        return
    vendor, runs = work.connection.vendor, sorted({run for run, _priority in wanted})
    query = f"SELECT run_id, priority, is_waiting FROM {QUEUES} WHERE run_id {in_clause(vendor, len(runs))}"
    found = {
        (run, priority): waits for run, priority, waits in work.query(query, [in_param(runs, vendor)], flush=False)
    }
    for run, priority in sorted(wanted - found.keys()):
        work.cursor.execute(_insert_sql(), [run, run, priority])
    for key in sorted(key for key in wanted & found.keys() if not found[key]):
        work.cursor.execute(_wake_sql(vendor), key)


def _insert_sql() -> str:
    """A new queue enters half a turn before the latest, so that a single long queue does not keep it waiting.

    Claims in the same moment read the same order: if the long queue were next, each of them would take from it.
    """
    return (
        f"INSERT INTO {QUEUES} (run_id, priority, turn, is_waiting) SELECT %s, queue.priority, "
        f"{LATEST} - 1 + 0.5 / (SELECT run.weight FROM {RUNS} AS run WHERE run.id = %s), true "
        f"FROM (SELECT CAST(%s AS smallint) AS priority) AS queue WHERE true ON CONFLICT DO NOTHING"
    )


def _wake_sql(vendor: str) -> str:
    free = f"SELECT id FROM {QUEUES} WHERE run_id = %s AND priority = %s{SKIP_LOCKED[vendor]}"
    return (
        f"UPDATE {QUEUES} AS queue SET is_waiting = true, turn = {MAXIMUM[vendor]}(turn, {LATEST} - 1 + {STEP}) "
        f"WHERE queue.id IN ({free}) AND NOT queue.is_waiting"
    )


def move_on(work: UnitOfWork, started: Mapping[int, int]) -> None:
    """Give the turn to the next queue, after so many tasks of each queue have started.

    Of several transactions that take from a queue at the same time one moves it on. They all read the same order, so
    each queue in turn is taken from several times.
    """
    vendor = work.connection.vendor
    for queue, count in sorted(started.items()):
        free = f"SELECT id FROM {QUEUES} WHERE id = %s{SKIP_LOCKED[vendor]}"
        work.cursor.execute(
            f"UPDATE {QUEUES} AS queue SET turn = {MAXIMUM[vendor]}(turn, {LATEST} - 1) + %s * {STEP} "
            f"WHERE queue.id IN ({free})",
            [count, queue],
        )


def tend() -> int:
    """Close the queues without tasks, delete those of ended runs, and open those that were missed; return the number.

    The previous version of the program queues tasks without opening a queue.
    """
    queued = Task.objects.filter(state=SqlLiteral(tasks.State.QUEUED))
    waiting = RunQueue.objects.filter(is_waiting=True)
    open_ones = waiting.filter(run=OuterRef("run"), priority=OuterRef("priority"))
    missed = list(queued.exclude(Exists(open_ones)).order_by().values_list("run", "priority").distinct())
    if missed:
        run_in_transaction(lambda work: open_queues(work, missed))
    with transaction.atomic():
        empty = waiting.exclude(Exists(queued.filter(run=OuterRef("run"), priority=OuterRef("priority"))))
        free = empty.select_for_update(skip_locked=True, no_key=True)
        closed = RunQueue.objects.filter(pk__in=list(free.values_list("pk", flat=True))).update(is_waiting=False)
    # As a join, SQLite would read all runs that have ended.
    states = RunQueue.objects.alias(run_state=related_column(RunQueue, "run", "state"))
    ended = states.filter(is_waiting=False, run_state__in=sorted(FINAL))
    return len(missed) + closed + ended.delete()[0]


# Limits


def admit(
    work: UnitOfWork,
    starting: Sequence[Any],
    limits: Mapping[str, int],
    *,
    is_running: bool = False,
    earlier: Counter[str] | None = None,
) -> list[Any]:
    """Return the tasks that may start under the limits of their runs, in order; `limits` has those with one.

    `is_running` if one task is given and already counts as running. `earlier` has the number of tasks by run that this
    transaction has admitted and not started yet.
    """
    limited = sorted({task.run_id for task in starting} & limits.keys())
    if not limited:
        return list(starting)
    counted = _lock_and_count(work, limited)
    room = Counter({run: limits[run] - counted[run] + int(is_running) for run in counted})
    room.subtract(earlier or {})
    admitted = []
    for task in starting:
        if task.run_id in limits:
            if room[task.run_id] <= 0:
                continue
            room[task.run_id] -= 1
        admitted.append(task)
    return admitted


def _lock_and_count(work: UnitOfWork, runs: list[str]) -> dict[str, int]:
    """Lock the first queue of each run, and return the number of running tasks by run; without those locked elsewhere.

    It waits for a lock only if this transaction holds nothing that the other one could wait for.
    """
    waits = not work.shared and not work.holds_lock_of(CircuitBreaker, RunQueue)
    if work.connection.vendor == "postgresql":
        first = f"SELECT min(id) FROM {QUEUES} WHERE run_id = ANY(%s) GROUP BY run_id"
        lock = f"SELECT run_id FROM {QUEUES} WHERE id IN ({first}) ORDER BY id FOR NO KEY UPDATE"
        runs = [run for (run,) in work.query(lock + ("" if waits else " SKIP LOCKED"), [runs])]
        work.locked.update((RunQueue, run) for run in runs)
    else:
        work.flush()
    counted = Task.objects.filter(run__in=runs, state=SqlLiteral(tasks.State.RUNNING)).values_list("run")
    return dict.fromkeys(runs, 0) | dict(counted.annotate(Count("pk")).order_by())


def select_full_runs() -> QuerySet[Any]:
    """Return the ids of the runs of which as many tasks run as may."""
    limited = Run.objects.filter(state=SqlLiteral(RunState.RUNNING), max_parallel__gt=0)
    running = Task.objects.filter(run=OuterRef("pk"), state=SqlLiteral(tasks.State.RUNNING)).order_by()
    counts = running.values("run").annotate(count=Count("pk")).values("count")
    full = limited.annotate(running=Coalesce(Subquery(counts), 0)).filter(running__gte=F("max_parallel"))
    return cast("QuerySet[Any]", full.values("pk"))


def require_room(work: UnitOfWork, changes: Iterable[Change]) -> None:
    """Refuse the start of a task without a claim if as many of its run are running as may."""
    for change in changes:
        task: Any = change.entity
        if task.pk in work.claimed or change.entry.kind == EventKind.OVERRIDE:
            continue
        limit = Run.objects.filter(pk=task.run_id).values_list("max_parallel", flat=True).get()
        if limit and not admit(work, [task], {task.run_id: limit}, is_running=True):
            detail = f"run {task.run_id}: {limit} of {limit} tasks run at once"
            raise GuardFailed(
                "worker_started", [Unmet("run_is_full", detail, task.run_id, "run")], **task.current_facts()
            )
