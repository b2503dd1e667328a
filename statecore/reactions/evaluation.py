"""Re-evaluating entities: one query for their situation, then the transition that is due for each.

A situation query answers for one entity or for thousands. Its subqueries count or take the first match: EXISTS would
let the planner read whole tables for many entities, and does so where statistics are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, partial
from typing import Any

from django.db import connection

from .. import transitions
from ..journal import Entry
from ..kernel.entity import Entity
from ..kernel.transition import Guard
from ..storage.sql_params import in_clause, in_param
from ..transitions.change import Change
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction

# Entities to re-evaluate, each with the event that is the reason; None where only time has passed.
Causes = dict[str, Entry | None]
Reevaluate = Callable[[UnitOfWork, Causes], None]

# The tables, by the names the queries use.
TABLES = {
    "tasks": "statecore_task",
    "task_dependencies": "statecore_task_depends_on",
    "exit_gates": "statecore_task_gates",
    "entry_gates": "statecore_task_entry_gates",
    "gates": "statecore_testgate",
    "gate_dependencies": "statecore_testgate_depends_on",
    "patches": "statecore_patchledger",
    "workstreams": "statecore_workstream",
    "workstream_dependencies": "statecore_workstream_depends_on",
    "runs": "statecore_run",
}
FEW = 100  # entities up to which a generic plan is good enough


# Causes


def changed(changes: Iterable[Change]) -> Causes:
    """Return each changed entity with its event."""
    return {change.entity.pk: change.entry for change in changes}


def parents_of(changes: Iterable[Change], key: str) -> Causes:
    """Return the parents of the changed entities, each with the last event; `key` is a column like `workstream_id`."""
    parents = ((change.entity.__dict__[key], change.entry) for change in changes)
    return {parent: entry for parent, entry in parents if parent is not None}


def related(work: UnitOfWork, query: str, causes: Causes) -> Causes:
    """Run a query for pairs of (id, id of a changed entity); each id gets the cause of the changed entity."""
    if not causes:
        return {}
    return {entity_id: causes[changed_id] for entity_id, changed_id in run_query(work, query, causes)}


def related_ids(work: UnitOfWork, query: str, causes: Causes) -> set[str]:
    return {pk for (pk,) in run_query(work, query, causes)} if causes else set()


# Queries


def has_linked(entity: str, links: str, far: str, condition: str) -> str:
    """SQL: whether an entity at the far end of a link satisfies a condition on `other`.

    `links` and `far` each name a table and its column.
    """
    (table, own), (target, key) = links.split("."), far.split(".")
    return (
        f"(SELECT count(*) FROM {{{table}}} AS link WHERE link.{own} = {entity}.id "
        f"AND (SELECT {condition} FROM {{{target}}} AS other WHERE other.id = link.{key})) > 0"
    )


def has_part(parent: str, parts: str, condition: str = "true") -> str:
    """SQL: whether a part of a parent satisfies a condition on `part`; `parts` names their table.

    It is a range in the order of the index. For a single key PostgreSQL reads the whole table when it has seen that
    nearly all rows belong to one parent.
    """
    key = f"part.{parent}_id"
    range_ = f"{key} BETWEEN {parent}.id AND {parent}.id"
    return f"(SELECT 1 FROM {{{parts}}} AS part WHERE {range_} AND {condition} ORDER BY {key} LIMIT 1) IS NOT NULL"


def has_no_successor(table: str, alias: str) -> str:
    """SQL: whether an entity was not retried."""
    return f"(SELECT count(*) FROM {{{table}}} AS successor WHERE successor.retry_of_id = {alias}.id) = 0"


def has_current_part(parent: str, parts: str, condition: str) -> str:
    """SQL: whether a part that was not retried satisfies a condition."""
    wanted = f"{condition} AND {has_no_successor(parts, 'part')}"
    return f"(SELECT 1 FROM {{{parts}}} AS part WHERE part.{parent}_id = {parent}.id AND {wanted} LIMIT 1) IS NOT NULL"


def run_query(work: UnitOfWork, query: str, ids: Iterable[str], *, flush: bool = True) -> list[Any]:
    """Run a query about these entities: `{ids}` becomes a condition for them, `{tasks}` and so on the tables."""
    wanted = list(ids)
    if work.connection.vendor == "postgresql" and len(wanted) > FEW:
        # A generic plan made for a few entities in small tables would take forever for many.
        work.cursor.execute("SET LOCAL plan_cache_mode = force_custom_plan")
    sql = format_query(query, one=len(wanted) == 1)
    return work.query(sql, [in_param(wanted, work.connection.vendor)], flush=flush)


@cache
def format_query(query: str, *, one: bool) -> str:
    """Fill in the tables and the condition for one id or several; the parameter comes from `in_param`."""
    return query.format(ids=in_clause(connection.vendor, 1 if one else 2), **TABLES)


# Transitions


def apply_each(
    work: UnitOfWork,
    model: type[Entity],
    due: Iterable[tuple[str, str | None]],
    causes: Causes,
    reevaluate: Reevaluate,
    known: Mapping[str, Collection[Guard]] | None = None,
) -> None:
    """Fire the trigger that is due for each entity; `known` has, by trigger, the guards that the situation meets."""
    by_trigger: dict[str, Causes] = {}
    for entity_id, trigger in due:
        if trigger:
            by_trigger.setdefault(trigger, {})[entity_id] = causes[entity_id]
    for trigger, found in by_trigger.items():
        guards = (known or {}).get(trigger, ())
        apply(work, model, trigger, found, reevaluate, known=guards, flush=not guards)


def apply(
    work: UnitOfWork, model: type[Entity], trigger: str, causes: Causes, reevaluate: Reevaluate, **given: Any
) -> None:
    """Fire a trigger for each entity; rows locked elsewhere are re-evaluated after the commit."""
    locked_elsewhere = transitions.follow_up(work, model, causes, trigger, **given)
    if locked_elsewhere:
        left_out = {entity_id: causes[entity_id] for entity_id in locked_elsewhere}
        work.postpone(partial(_reevaluate_later, model, left_out, reevaluate))


def _reevaluate_later(model: type[Entity], causes: Causes, reevaluate: Reevaluate) -> None:
    """Re-evaluate each entity in a separate transaction, which may wait for its lock."""
    for entity_id, cause in causes.items():

        def step(work: UnitOfWork, entity_id: str = entity_id, cause: Entry | None = cause) -> None:
            work.lock_many(model, [entity_id])
            reevaluate(work, {entity_id: cause})

        run_in_transaction(step)
