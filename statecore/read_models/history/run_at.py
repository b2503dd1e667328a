"""A run at an earlier time: the run and its workstreams, tasks, gates and patches, each in its state at that time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from ...journal import Anchor
from ...journal.archive import build_archived_refusal, list_anchors
from ...journal.commit_order import EVENTS
from ...kernel.clock import now, rfc3339
from ...kernel.entity import Entity
from ...kernel.flow import Flow
from ...kernel.ids import is_valid_id
from ...kernel.refusals import NotFound
from ...machines.patch_ledger import PatchLedger
from ...machines.run import Run
from ...machines.task import Task
from ...machines.test_gate import TestGate
from ...machines.workstream import Workstream

PARTS: tuple[type[Entity], ...] = (Workstream, Task, TestGate, PatchLedger)
ANCHORS = Anchor._meta.db_table
MAX_ROWS = 20_000  # of each machine; a longer result is truncated and marked as such


def get_run_at(run_id: str, moment: datetime | None = None) -> dict[str, Any]:
    """Returns the run and its parts in their states at a moment, by default now.

    Raises NotFound if the run did not exist then, and a refusal if the moment is in the archived part of the journal.
    """
    moment = moment or now()
    found = _read_states(Run.flow, "id = %s", run_id, moment) if is_valid_id(run_id) else []
    if not found:
        raise NotFound(f"there was no run {run_id!r} at {rfc3339(moment)}")
    (run,) = found
    parts = {model.flow.collection: _read_states(model.flow, "run_id = %s", run_id, moment) for model in PARTS}
    return {
        "time": rfc3339(moment),
        "run": run,
        "counts": {name: _count_states(members) for name, members in parts.items()},
        **{name: members[:MAX_ROWS] for name, members in parts.items()},
        "truncated": any(len(members) > MAX_ROWS for members in parts.values()),
    }


def _count_states(members: Iterable[dict[str, Any]]) -> dict[str, int]:
    return dict(sorted(Counter(member["state"] for member in members).items()))


def _read_states(flow: Flow, condition: str, run_id: str, moment: datetime) -> list[dict[str, Any]]:
    """Returns the entities of a run with their last event before the moment.

    If the events of an entity are archived, the database has only the last of them. A moment before that one is
    refused, because the state is in the archive file.
    """
    columns = {field.attname for field in flow.model._meta.concrete_fields}
    parent = "row.workstream_id" if "workstream_id" in columns else "NULL"
    kind, then = flow.entity_type, connection.ops.adapt_datetimefield_value(moment)
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT e.event_id IS NULL AND a.at > %s, row.id, {parent}, {_coalesce("to_state", "sequence")},
                   coalesce(e.timestamp, a.at), {_coalesce("trigger", "kind", "actor", "event_id")}
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
            [then, kind, kind, then, kind, kind, run_id, then, MAX_ROWS + 1],
        )
        rows = cursor.fetchall()
    for is_archived, pk, *_rest in rows:
        if is_archived and (anchor := list_anchors(kind, pk).first()):
            raise build_archived_refusal(anchor.archived_range, f"the state of {kind} {pk} at {rfc3339(moment)}")
    return [_serialize_member(*row[1:]) for row in rows]


def _coalesce(*names: str) -> str:
    return ", ".join(f"coalesce(e.{name}, a.{name})" for name in names)


def _serialize_member(
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
    member = {"id": pk, "state": state, "version": version, "since": _format_moment(since)}
    last = {"event_id": event, "trigger": trigger, "kind": kind, "actor": actor}
    return {**member, **({"workstream": workstream} if workstream else {}), "last_event": last}


def _format_moment(since: datetime | str) -> str:
    """Formats a time that SQLite may have returned as text, because it is the result of coalesce()."""
    moment = datetime.fromisoformat(since) if isinstance(since, str) else since
    return rfc3339(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
