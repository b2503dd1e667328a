"""A run as it was at a moment: it and its workstreams, tasks, gates and patches, each where its last event left it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from ..journal import Event
from ..kernel.clock import now, rfc3339
from ..kernel.entity import Entity
from ..kernel.flow import Flow
from ..kernel.refusals import NotFound
from ..kernel.ulid import is_valid_id
from ..machines.patch_ledger import PatchLedger
from ..machines.run import Run
from ..machines.task import Task
from ..machines.test_gate import TestGate
from ..machines.workstream import Workstream

PARTS: tuple[type[Entity], ...] = (Workstream, Task, TestGate, PatchLedger)
MOST = 20_000  # of one machine; a run with more is told without the rest, and says so


def run_at(run_id: str, moment: datetime | None = None) -> dict[str, Any]:
    moment = moment or now()
    found = _as_they_were(Run.flow, "id = %s", run_id, moment) if is_valid_id(run_id) else []
    if not found:
        raise NotFound(f"there was no run {run_id!r} at {rfc3339(moment)}")
    (run,) = found
    parts = {model.flow.collection: _as_they_were(model.flow, "run_id = %s", run_id, moment) for model in PARTS}
    return {
        "time": rfc3339(moment),
        "run": run,
        "counts": {name: _counted(members) for name, members in parts.items()},
        **{name: members[:MOST] for name, members in parts.items()},
        "truncated": any(len(members) > MOST for members in parts.values()),
    }


def _counted(members: Iterable[dict[str, Any]]) -> dict[str, int]:
    return dict(sorted(Counter(member["state"] for member in members).items()))


def _as_they_were(flow: Flow, condition: str, run_id: str, moment: datetime) -> list[dict[str, Any]]:
    """The last event of each up to then: it stands at the end of a short walk along the entity's chain."""
    columns = {field.attname for field in flow.model._meta.concrete_fields}
    parent = "row.workstream_id" if "workstream_id" in columns else "NULL"
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT row.id, {parent}, e.to_state, e.sequence, e.timestamp, e.trigger, e.kind, e.actor, e.event_id
            FROM {flow.model._meta.db_table} AS row JOIN {Event._meta.db_table} AS e
            ON e.entity_type = %s AND e.entity_id = row.id AND e.sequence = (
                SELECT max(c.sequence) FROM {Event._meta.db_table} AS c
                WHERE c.entity_type = %s AND c.entity_id = row.id AND c.timestamp <= %s)
            WHERE row.{condition} ORDER BY row.created_at, row.id LIMIT %s
            """,
            [
                flow.entity_type, flow.entity_type, connection.ops.adapt_datetimefield_value(moment), run_id, MOST + 1,
            ],
        )  # fmt: skip
        return [_member(*row) for row in cursor.fetchall()]


def _member(
    pk: str,
    workstream: str | None,
    state: str,
    version: int,
    since: Any,
    trigger: str,
    kind: str,
    actor: str,
    event: str,
) -> dict[str, Any]:
    told = {"id": pk, "state": state, "version": version, "since": _moment(since)}
    last = {"event_id": event, "trigger": trigger, "kind": kind, "actor": actor}
    return {**told, **({"workstream": workstream} if workstream else {}), "last_event": last}


def _moment(since: datetime) -> str:
    return rfc3339(since if since.tzinfo else since.replace(tzinfo=UTC))
