"""Looking around: one query that says of each entity what stands between it and its next move."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from django.db import connection

from ..door.work import current
from ..kernel.many import among, listed

# The tables, by the names the queries below use.
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
FEW = 100  # entities for which a plan made for one is good enough


def linked(entity: str, links: str, far: str, such: str) -> str:
    """Whether one at the far end of an entity's links is such; `links` and `far` name a table and its column each.

    Counted, with one look at each far end: for many entities EXISTS may be answered by reading all the links there are,
    and is where nobody has told the planner how many belong to one.
    """
    (table, own), (there, key) = links.split("."), far.split(".")
    return (
        f"(SELECT count(*) FROM {{{table}}} AS link WHERE link.{own} = {entity}.id "
        f"AND (SELECT {such} FROM {{{there}}} AS other WHERE other.id = link.{key})) > 0"
    )


def there_is(whole: str, parts: str, such: str = "true") -> str:
    """Whether one `part` of a whole is such; `parts` names their table.

    Asked of each whole, up to the first: EXISTS may be answered for all wholes at once by reading all the parts there
    are, and is where the planner has been told that most of them belong to one.
    """
    return f"(SELECT 1 FROM {{{parts}}} AS part WHERE part.{whole}_id = {whole}.id AND {such} LIMIT 1) IS NOT NULL"


def stands(parts: str, part: str) -> str:
    """Whether it was not retried: then its successor answers for it. Counted, for the same reason."""
    return f"(SELECT count(*) FROM {{{parts}}} AS heir WHERE heir.retry_of_id = {part}.id) = 0"


def one_stands(whole: str, parts: str, such: str) -> str:
    """Whether one part of a whole is such, and no successor answers for it."""
    return there_is(whole, parts, f"{such} AND {stands(parts, 'part')}")


def look(query: str, ids: Iterable[str]) -> list[Any]:
    """Ask a question about these entities; `{ids}` in the query stands for them, `{tasks}` and so on for the tables."""
    work = current()
    vendor = work.connection.vendor
    wanted = list(ids)
    if vendor == "postgresql" and len(wanted) > FEW:
        # The server keeps the plan it once made for a few entities in small tables: with many it would never end.
        work.cursor.execute("SET LOCAL plan_cache_mode = force_custom_plan")
    work.cursor.execute(asked(query, one=len(wanted) == 1), [listed(wanted, vendor)])
    return list(work.cursor.fetchall())


@cache
def asked(query: str, *, one: bool) -> str:
    """The question as it is sent, about one entity or several; its parameter is what `listed` makes of their ids."""
    return query.format(ids=among(connection.vendor, 1 if one else 2), **TABLES)
