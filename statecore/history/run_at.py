"""A run as it was at a moment: it and its workstreams, tasks, gates and patches, each where its last event left it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.db import connection

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
from ..records import Anchor
from ..records.commit_order import EVENTS
from ..records.retirement import anchors_of, refusal_of

PARTS: tuple[type[Entity], ...] = (Workstream, Task, TestGate, PatchLedger)
ANCHORS = Anchor._meta.db_table
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
    """The last event of each up to then: it stands at the end of a short walk along the entity's chain.

    Of a chain that was retired only the last event is known: where it was before that, only the file knows.
    """
    columns = {field.attname for field in flow.model._meta.concrete_fields}
    parent = "row.workstream_id" if "workstream_id" in columns else "NULL"
    kind, then = flow.entity_type, connection.ops.adapt_datetimefield_value(moment)
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT e.event_id IS NULL AND a.at > %s, row.id, {parent}, {_either("to_state", "sequence")},
                   coalesce(e.timestamp, a.at), {_either("trigger", "kind", "actor", "event_id")}
            FROM {flow.model._meta.db_table} AS row
            LEFT JOIN {EVENTS} AS e ON e.entity_type = %s AND e.entity_id = row.id AND e.sequence = (
                SELECT max(c.sequence) FROM {EVENTS} AS c
                WHERE c.entity_type = %s AND c.entity_id = row.id AND c.timestamp <= %s)
            LEFT JOIN {ANCHORS} AS a ON a.entity_type = %s AND a.entity_id = row.id AND a.sequence = (
                SELECT max(b.sequence) FROM {ANCHORS} AS b WHERE b.entity_type = %s AND b.entity_id = row.id)
            WHERE row.{condition}
              AND (e.event_id IS NOT NULL OR (a.event_id IS NOT NULL AND row.created_at <= %s))
            ORDER BY row.created_at, row.id LIMIT %s
            """,
            [then, kind, kind, then, kind, kind, run_id, then, MOST + 1],
        )
        rows = cursor.fetchall()
    for is_retired, pk, *_rest in rows:
        if is_retired and (anchor := anchors_of(kind, pk).first()):
            raise refusal_of(anchor.retirement, f"where {kind} {pk} was at {rfc3339(moment)}")
    return [_member(*row[1:]) for row in rows]


def _either(*names: str) -> str:
    return ", ".join(f"coalesce(e.{name}, a.{name})" for name in names)


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


def _moment(since: datetime | str) -> str:
    """SQLite tells what it has put together as text."""
    moment = datetime.fromisoformat(since) if isinstance(since, str) else since
    return rfc3339(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
