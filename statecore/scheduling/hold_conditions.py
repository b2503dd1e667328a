"""The condition of a claim that a task is neither held nor part of a paused workstream, in SQL."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from ..machines.workstream import State, Workstream
from ..records.hold import Kind
from ..storage.sql_params import quote_states


@cache
def is_not_held_sql(vendor: str) -> str:
    """SQL: whether the task `row` is neither held nor part of a paused workstream. Its parameters are `held_params`.

    The subqueries do not depend on the row, so each is evaluated once and a long queue stays cheap. The CASE keeps the
    planner from expecting that few tasks are not held, which would make it sort the whole queue.
    """
    capabilities = {
        "postgresql": f"jsonb_exists_any(row.required_capabilities, ARRAY({_select_targets(Kind.CAPABILITY)}))",
        "sqlite": "EXISTS (SELECT 1 FROM json_each(row.required_capabilities) AS needed "
        f"WHERE needed.value IN ({_select_targets(Kind.CAPABILITY)}))",
    }
    is_paused = f"paused.state = {quote_states([State.PAUSED])}"
    paused = f"SELECT paused.id FROM {Workstream._meta.db_table} AS paused WHERE {is_paused}"
    return (
        f"NOT EXISTS ({_select_targets(Kind.EVERYTHING)}) AND CASE "
        f"WHEN row.run_id IN ({_select_targets(Kind.RUN)}) OR row.phase_id IN ({_select_targets(Kind.PHASE)}) "
        f"OR row.workstream_id IN ({paused}) OR row.tool IN ({_select_targets(Kind.TOOL)}) "
        f"OR {capabilities[vendor]} THEN false ELSE true END"
    )


def held_params(connection: BaseDatabaseWrapper, at: datetime) -> list[Any]:
    return [connection.ops.adapt_datetimefield_value(at)] * len(Kind)


def _select_targets(kind: Kind) -> str:
    return (
        f"SELECT hold.target FROM statecore_hold AS hold WHERE hold.kind = '{kind}' "
        f"AND hold.ended_at IS NULL AND (hold.expires_at IS NULL OR hold.expires_at > %s)"
    )


def run_is_not_held_sql() -> str:
    """SQL: whether the run of the row `queue` is not held. Its parameter is the time."""
    return f"queue.run_id NOT IN ({_select_targets(Kind.RUN)})"
