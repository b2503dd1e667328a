"""Looking around: one query that says of each entity what stands between it and its next move."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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


def look(query: str, ids: Iterable[str]) -> list[Any]:
    """Ask a question about these entities; `{ids}` in the query stands for them, `{tasks}` and so on for the tables."""
    work = current()
    vendor = work.connection.vendor
    work.cursor.execute(query.format(ids=among(vendor), **TABLES), [listed(ids, vendor)])
    return list(work.cursor.fetchall())
