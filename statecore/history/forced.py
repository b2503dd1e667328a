"""Every override, newest first, and whether it held: what became of the entity next, if anything did."""

from __future__ import annotations

from typing import Any

from django.db import connection

from ..journal import Event, EventKind, read
from .filters import Filters
from .pages import USUAL, Page, page

Key = tuple[str, str, int]


def forced(
    *,
    before: int | None = None,
    limit: int = USUAL,
    actor: list[str] | None = None,
    entity_type: list[str] | None = None,
) -> Page:
    wanted = Filters(kind=[EventKind.OVERRIDE.value], actor=actor or [], entity_type=entity_type or [])
    found = page(wanted, before=before, limit=limit, newest_first=True)
    following = _following([each["event"] for each in found.events])
    return Page([_judged(each, following) for each in found.events], found.more)


def _judged(each: dict[str, Any], following: dict[Key, dict[str, Any]]) -> dict[str, Any]:
    event = each["event"]
    then = following.get(_next(event))
    left = then and {name: then[name] for name in ("event_id", "trigger", "to_state", "kind", "actor", "timestamp")}
    return {**event, "position": each["position"], "held": then is None, "left_by": left}


def _next(event: dict[str, Any]) -> Key:
    return event["entity_type"], event["entity_id"], event["sequence"] + 1


def _following(events: list[dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    if not events:
        return {}
    keys = [_next(event) for event in events]
    rows = ", ".join(["(%s, %s, %s)"] * len(keys))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT entity_type, entity_id, sequence, body, hash FROM {Event._meta.db_table} "
            f"WHERE (entity_type, entity_id, sequence) IN (VALUES {rows})",
            [part for key in keys for part in key],
        )
        return {(kind, pk, number): read(body, hash_) for kind, pk, number, body, hash_ in cursor.fetchall()}
