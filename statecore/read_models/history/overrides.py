"""Pages of overrides, newest first, each with the transition that ended its effect, if there was one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection

from ...journal import Event, EventKind, parse_event
from .filters import Filters
from .pages import DEFAULT_LIMIT, Page, read_page

Key = tuple[str, str, int]
NEXT_EVENT_FIELDS = ("event_id", "trigger", "to_state", "kind", "actor", "timestamp")


def list_overrides(
    *,
    before: int | None = None,
    limit: int = DEFAULT_LIMIT,
    actor: list[str] | None = None,
    entity_type: list[str] | None = None,
    since: datetime | None = None,
) -> Page:
    """Returns the newest overrides before a position, and not before a time.

    `held` is true while the entity is still in the state it was forced to; `left_by` is the event that left it.
    """
    kind = [EventKind.OVERRIDE.value]
    filters = Filters(kind=kind, actor=actor or [], entity_type=entity_type or [], since=since)
    page = read_page(filters, before=before, limit=limit, newest_first=True)
    next_events = _read_next_events([each["event"] for each in page.events])
    return Page([_serialize(each, next_events) for each in page.events], page.more)


def _serialize(each: dict[str, Any], next_events: dict[Key, dict[str, Any]]) -> dict[str, Any]:
    event = each["event"]
    left_by = next_events.get(_get_next_key(event))
    summary = left_by and {name: left_by[name] for name in NEXT_EVENT_FIELDS}
    return {**event, "position": each["position"], "held": left_by is None, "left_by": summary}


def _get_next_key(event: dict[str, Any]) -> Key:
    return event["entity_type"], event["entity_id"], event["sequence"] + 1


def _read_next_events(events: list[dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    if not events:
        return {}
    keys = [_get_next_key(event) for event in events]
    rows = ", ".join(["(%s, %s, %s)"] * len(keys))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT entity_type, entity_id, sequence, body, hash FROM {Event._meta.db_table} "
            f"WHERE (entity_type, entity_id, sequence) IN (VALUES {rows})",
            [part for key in keys for part in key],
        )
        return {(kind, pk, number): parse_event(body, hash_) for kind, pk, number, body, hash_ in cursor.fetchall()}
