"""The search of a claim: one statement that finds and locks the next tasks for a worker.

It reads the queues of the runs in their order (records/run_queue.py), and takes from the first one that has a task for
the worker. What follows from the run alone is checked before its tasks are read, so that a run which is held or full
costs the same however many tasks it has queued.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper

from ..kernel.clock import now
from ..machines.task import Task
from ..reactions import tools, unobserved_completion
from ..reactions.run_queues import HAS_ROOM, QUEUES
from ..storage.sql_params import in_clause, in_param
from ..transitions.entity_reader import reader_of
from ..transitions.unit_of_work import UnitOfWork
from .hold_conditions import held_params, is_not_held_sql, run_is_not_held_sql

# A CASE for the same reason as below.
HAS_TOOL = f" AND CASE WHEN row.tool = '' THEN true ELSE row.tool NOT IN ({tools.UNAVAILABLE}) END"
CAN = {
    # Without the CASE the planner expects containment to be rare, and sorts the whole queue to find it.
    "postgresql": " AND CASE WHEN row.required_capabilities <@ %s::jsonb THEN true ELSE false END",
    "sqlite": " AND NOT EXISTS (SELECT 1 FROM json_each(row.required_capabilities) AS needed "
    "WHERE needed.value NOT IN (SELECT value FROM json_each(%s)))",
}
NEAR = {
    "postgresql": " AND row.workstream_id = ANY(SELECT jsonb_array_elements_text(%s::jsonb))",
    "sqlite": " AND row.workstream_id IN (SELECT value FROM json_each(%s))",
}


class Found(NamedTuple):
    """A task with its queue, whether other queues of its priority wait, and the limit of its run."""

    task: Any
    queue: int
    has_rivals: bool
    limit: int


class Batch(NamedTuple):
    """The tasks of one search, all of the same priority; `is_all` if another search would find no more."""

    tasks: list[Found]
    is_all: bool


# The states of the workstream and the run, which the reactions to a start need.
COLUMNS = (
    ", (SELECT workstream.state FROM statecore_workstream AS workstream WHERE workstream.id = row.workstream_id)"
    ", (SELECT run.state FROM statecore_run AS run WHERE run.id = row.run_id)"
    ", (SELECT run.max_parallel FROM statecore_run AS run WHERE run.id = row.run_id)"
    ", queue.id, (SELECT count(*) FROM {rivals} LIMIT 2) AS few) > 1"
)
RIVALS = f"(SELECT 1 FROM {QUEUES} AS rival WHERE rival.is_waiting AND rival.priority = queue.priority"
# Several tasks are taken from the queues of a priority in equal parts. SQLite permits no reference to the queue in a
# LIMIT, so there each search takes one task of each queue.
SHARE = {"postgresql": f"greatest(1, %s / (SELECT count(*) FROM {RIVALS} LIMIT %s) AS few))", "sqlite": "1"}
# What follows from the queue alone. In SQLite it belongs to the outer query, which otherwise checks it for each task.
MAY_SERVE = f"{run_is_not_held_sql()} AND {HAS_ROOM}"
IN_QUEUE = (
    "row.run_id = queue.run_id AND row.priority = queue.priority "
    "AND row.state = 'queued'{can}{near} AND {free}{tools}{left_out} "
    "ORDER BY row.state_entered_at, row.id LIMIT {share}"
)
ORDER = "ORDER BY queue.priority DESC, queue.turn, queue.id"
# The queues are ordered in a separate subquery, because to sort its result the statement would have to lock a task
# of each. Its LIMIT has no effect but on the planner, which without it expects to read all queues and sorts them.
LOCK = " FOR NO KEY UPDATE OF row SKIP LOCKED"
SEARCH = {
    "postgresql": (
        f"SELECT {{columns}} FROM (SELECT queue.id, queue.run_id, queue.priority FROM {QUEUES} AS queue "
        f"WHERE queue.is_waiting {ORDER} LIMIT (SELECT 1000000000)) AS queue CROSS JOIN LATERAL "
        f"(SELECT row.* FROM {{tasks}} AS row WHERE {MAY_SERVE} AND {{in_queue}}{LOCK}) AS row LIMIT {{limit}}"
    ),
    "sqlite": (
        f"SELECT {{columns}} FROM {QUEUES} AS queue CROSS JOIN {{tasks}} AS row WHERE queue.is_waiting "
        f"AND {MAY_SERVE} AND row.id IN (SELECT row.id FROM {{tasks}} AS row WHERE {{in_queue}}) "
        f"{ORDER}, row.state_entered_at, row.id LIMIT {{limit}}"
    ),
}


@cache
def list_claimable_sql(vendor: str, most: int) -> str:
    """Return a SELECT of the required capabilities and the workstreams of the first tasks that some worker may claim.

    Its parameters are `claimable_params`.
    """
    in_queue = IN_QUEUE.format(can="", near="", free=is_not_held_sql(vendor), tools=HAS_TOOL, left_out="", share=most)
    columns = "row.required_capabilities, row.workstream_id"
    sql = SEARCH[vendor].format(columns=columns, tasks=Task._meta.db_table, in_queue=in_queue, limit=most)
    return sql.replace(LOCK, "")


def claimable_params(connection: BaseDatabaseWrapper, at: datetime) -> list[Any]:
    return [connection.ops.adapt_datetimefield_value(at), *held_params(connection, at)]


@cache
def _build_sql(
    vendor: str, left_out: tuple[tuple[str, int], ...], *, is_near: bool, takes_one: bool, checks: str
) -> str:
    """Build one of the few statements. `left_out` has the columns with values to leave out, and how many there are.

    For the usual case of one task the limits are literals: with parameters the server would plan each call.
    """
    reader = reader_of(Task, vendor)
    columns = reader.row_columns + COLUMNS.format(rivals=RIVALS)
    if checks:
        columns += f", {unobserved_completion.still_unobserved_sql(one=checks == 'one')}"
    in_queue = IN_QUEUE.format(
        can=CAN[vendor],
        near=NEAR[vendor] if is_near else "",
        free=is_not_held_sql(vendor),
        tools=HAS_TOOL,
        left_out="".join(f" AND NOT (row.{name} {in_clause(vendor, count)})" for name, count in left_out),
        share="1" if takes_one else SHARE[vendor],
    )
    limit = "1" if takes_one else "%s"
    return SEARCH[vendor].format(columns=columns, tasks=reader.table, in_queue=in_queue, limit=limit)


def find_next(
    work: UnitOfWork, worker: Any, most: int, reported: list[str], chosen: list[str], full: dict[str, set[str]]
) -> Batch:
    """Lock and return the next tasks, except those chosen before and those with a tool or run in `full`.

    If the transaction shares locks, the first search also checks again that the reported completions are unobserved.
    """
    vendor = work.connection.vendor
    left_out = {name: sorted(values) for name, values in {"id": chosen, **full}.items() if values}
    checks = bool(work.shared and not left_out)
    sql = _build_sql(
        vendor,
        is_near=bool(worker.affinity),
        left_out=tuple((name, min(len(values), 2)) for name, values in left_out.items()),
        takes_one=most == 1,
        checks="" if not checks else "one" if len(reported) == 1 else "many",
    )
    run_held, *held = claimable_params(work.connection, now())
    params: list[Any] = [in_param(reported, vendor)] if checks else []
    params += [run_held, json.dumps(worker.capabilities)]
    params += [json.dumps(worker.affinity.get("workstreams", []))] if worker.affinity else []
    params += held
    params += [in_param(values, vendor) for values in left_out.values()]
    params += [most] * (0 if most == 1 else 3 if vendor == "postgresql" else 1)
    # The places of reported tasks are free, so their tools may permit others.
    flush = any(change.entity.__dict__.get("tool") for change in work.pending)
    reader = reader_of(Task, vendor)
    width = len(reader.names)
    rows = work.query(sql, params, flush=flush)
    found = []
    for row in rows:
        task: Any = work.remember(reader, row[:width])
        workstream_state, run_state, limit, queue, has_rivals, *is_unobserved = row[width:]
        work.parent_states[task.workstream_id] = workstream_state, run_state
        if is_unobserved and is_unobserved[0]:
            work.unobserved = set(reported)
        found.append(Found(task, queue, bool(has_rivals), limit))
    first = [each for each in found if each.task.priority == found[0].task.priority]
    is_all = vendor == "postgresql" and len(first) == len(found) and not any(each.has_rivals for each in found)
    return Batch(first, is_all)
