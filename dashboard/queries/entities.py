"""A page of a machine's entities, found by an index and paged by a key.

Without a search the most recently changed come first. Their order is read from the journal, so no table is sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from statecore.journal import Anchor, Event, EventKind
from statecore.journal.commit_order import EVENTS, POSITIONS
from statecore.kernel.clock import now
from statecore.kernel.constraints import is_live
from statecore.kernel.entity import Entity
from statecore.kernel.flow import Flow
from statecore.machines.run import Run
from statecore.read_models.distrust import find_unverified

from . import run_progress
from .search import Search
from .time_limit import time_limit

PAGE_SIZE = 50
MAX_PARENTS = 2  # shown in a row
RECENT, LONGEST, BY_ID = "recent", "longest", "id"
SCAN, LONG_SCAN = 200, 4_000  # events read for a page, and for a page that would otherwise be nearly empty
FEW = 1_000  # up to so many entities, reading each one's last event is cheaper than scanning the journal
MAX_POSITION = 2**63 - 1
# Columns that no list shows and that may be long.
LONG_COLUMNS = {
    "metadata",
    "payload",
    "output",
    "stdout",
    "stderr",
    "compensation_plan",
    "quarantine_metadata",
    "result",
    "commands",
}


@dataclass(slots=True)
class Row:
    entity: Entity
    parents: list[tuple[str, str, str]]
    last_error: str
    is_forced: bool = False
    is_unverified: bool = False
    progress: run_progress.Progress | None = None  # of a run

    @property
    def ran(self) -> timedelta | None:
        """How long a run took, or has been running."""
        started = getattr(self.entity, "started_at", None)
        return None if started is None else (getattr(self.entity, "completed_at", None) or now()) - started


@dataclass(slots=True)
class Page:
    rows: list[Row]
    next: str = ""
    order: str = BY_ID
    orders: list[str] = field(default_factory=list)


def list_page(flow: Flow, search: Search, *, after: str = "", order: str = "") -> Page:
    orders = list_orders(flow, search)
    order = order if order in orders else orders[0]
    with time_limit():
        entities, following = _list_recent(flow, after) if order == RECENT else _list_found(flow, search, order, after)
        forced = _find_forced(flow, [entity.pk for entity in entities])
    unverified = find_unverified(flow.entity_type)
    rows = [
        Row(entity, list_parents(entity), _first_error_line(entity), entity.pk in forced, entity.pk in unverified)
        for entity in entities
    ]
    if flow is Run.flow:
        progress = run_progress.read_progress(entities)
        for row in rows:
            row.progress = progress.get(row.entity.pk)
    return Page(rows, following, order, orders)


def list_orders(flow: Flow, search: Search) -> list[str]:
    """`longest` needs the index over live rows, so it is offered for a single live state."""
    if not search.conditions and not search.states:
        return [RECENT, BY_ID]
    one_live = len(search.states) == 1 and not flow.is_final(search.states[0])
    return [LONGEST, BY_ID] if one_live else [BY_ID]


def _list_found(flow: Flow, search: Search, order: str, after: str) -> tuple[list[Entity], str]:
    rows = _order(filter_rows(flow, search), order, after).defer(*_long_columns(flow))
    found = list(rows[: PAGE_SIZE + 1])
    return found[:PAGE_SIZE], _key(found[PAGE_SIZE - 1], order) if len(found) > PAGE_SIZE else ""


def _list_recent(flow: Flow, after: str) -> tuple[list[Entity], str]:
    """By their last events, and the position to continue from. A page may be short or empty although more follow."""
    start = min(int(after), MAX_POSITION) if after.isascii() and after.isdigit() else MAX_POSITION
    found, before = _last_events(flow, start, SCAN)
    if before is not None and len(found) < PAGE_SIZE:
        if len(found) >= PAGE_SIZE / 2:
            more, before = _last_events(flow, before, SCAN)
            found += more
        else:
            found, before = _last_events_of_few(flow, start) if _are_few(flow) else _last_events(flow, start, LONG_SCAN)
    if len(found) > PAGE_SIZE:
        del found[PAGE_SIZE:]
        before = found[-1][0]
    rows = flow.model.objects.defer(*_long_columns(flow)).in_bulk([pk for _position, pk in found])
    return [rows[pk] for _position, pk in found if pk in rows], "" if before is None else str(before)


def _last_events(flow: Flow, before: int, limit: int) -> tuple[list[tuple[int, str]], int | None]:
    """Position and entity of the last events among `limit` events before a position; the next position if more follow.

    Events that are not their entity's last are skipped: the entity is listed at a later position. An entity that
    changes all the time fills the journal with such events.
    """
    events = _events_before(flow, before, limit)
    found = [(position, pk) for position, pk, is_last in events if is_last]
    return found, events[-1][0] if len(events) == limit else None


def _events_before(flow: Flow, before: int, limit: int) -> list[tuple[int, str, bool]]:
    """Position, entity, and whether it is the entity's last event. Archived entities keep their last event's anchor."""
    one_side: list[Any] = [flow.entity_type, before, limit]
    return _fetch(_EVENTS, flow, [*one_side, *one_side, limit])


def _are_few(flow: Flow) -> bool:
    return len(flow.model.objects.values_list("pk")[: FEW + 1]) <= FEW


def _last_events_of_few(flow: Flow, before: int) -> tuple[list[tuple[int, str]], int | None]:
    """The same, starting from the entities: the position of each one's last event, as many as a page needs."""
    found = _fetch(_LAST_EVENTS, flow, [flow.entity_type, flow.entity_type, before, PAGE_SIZE + 1])
    return found, found[PAGE_SIZE - 1][0] if len(found) > PAGE_SIZE else None


def _fetch(statement: str, flow: Flow, params: list[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement.format(entities=flow.model._meta.db_table), params)
        return list(cursor.fetchall())


# Both halves follow an index, and neither reads further than a page needs.
_EVENTS = f"""
    SELECT event.position, event.entity_id, entity.id IS NOT NULL FROM (
        SELECT * FROM (SELECT p.position, e.entity_id, e.sequence
                       FROM {POSITIONS} AS p JOIN {EVENTS} AS e USING (event_id)
                       WHERE p.entity_type = %s AND p.position < %s ORDER BY p.position DESC LIMIT %s) AS here
        UNION ALL
        SELECT * FROM (SELECT a.position, a.entity_id, a.sequence FROM {Anchor._meta.db_table} AS a
                       WHERE a.entity_type = %s AND a.position < %s ORDER BY a.position DESC LIMIT %s) AS archived
        ORDER BY 1 DESC LIMIT %s) AS event
    LEFT JOIN {{entities}} AS entity ON entity.id = event.entity_id AND entity.version = event.sequence
    ORDER BY event.position DESC
"""  # noqa: S608 - names of our own tables
# Materialized: otherwise the planner may walk the whole index of positions backwards.
_LAST_EVENTS = f"""
    WITH last_event AS MATERIALIZED (
        SELECT p.position, entity.id FROM {{entities}} AS entity
        JOIN {EVENTS} AS e ON e.entity_type = %s AND e.entity_id = entity.id AND e.sequence = entity.version
        JOIN {POSITIONS} AS p USING (event_id)
        UNION ALL
        SELECT a.position, entity.id FROM {{entities}} AS entity
        JOIN {Anchor._meta.db_table} AS a
            ON a.entity_type = %s AND a.entity_id = entity.id AND a.sequence = entity.version)
    SELECT position, id FROM last_event WHERE position < %s ORDER BY position DESC LIMIT %s
"""  # noqa: S608 - names of our own tables


def filter_rows(flow: Flow, search: Search) -> QuerySet[Any]:
    rows: QuerySet[Any] = flow.model.objects.filter(*search.conditions)
    if len(search.states) == 1:
        rows = rows.filter(state=search.states[0])
    elif search.states:
        rows = rows.filter(state__in=search.states)
    if search.states and not any(map(flow.is_final, search.states)):
        rows = rows.filter(is_live(flow.final))
    return rows


def _order(rows: QuerySet[Any], order: str, after: str) -> QuerySet[Any]:
    if order == BY_ID:
        return (rows.filter(pk__lt=after) if after else rows).order_by("-pk")
    moment, _, pk = after.partition("~")
    if then := _parse_time(moment):
        rows = rows.filter(Q(state_entered_at__gt=then) | Q(state_entered_at=then, pk__gt=pk))
    return rows.order_by("state_entered_at", "pk")


def _parse_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _key(entity: Entity, order: str) -> str:
    return str(entity.pk) if order == BY_ID else f"{entity.state_entered_at.isoformat()}~{entity.pk}"


def _long_columns(flow: Flow) -> list[str]:
    return [column.name for column in flow.model._meta.concrete_fields if column.name in LONG_COLUMNS]


def _find_forced(flow: Flow, ids: list[str]) -> set[str]:
    events = Event.objects.filter(entity_type=flow.entity_type, entity_id__in=ids, kind=EventKind.OVERRIDE)
    archived = Anchor.objects.filter(entity_type=flow.entity_type, entity_id__in=ids, was_forced=True)
    return {pk for (pk,) in events.values_list("entity_id").union(archived.values_list("entity_id"))}


def forceable_states(entity: Entity, successor: str | None) -> list[str]:
    """The states an override may lead to; none for an entity that was retried."""
    flow, here = entity.flow, entity.state
    return [] if successor else [state for state in flow.states if state != here and flow.may_force(here, state)]


def find_successor(entity: Entity) -> str | None:
    """The id of the retry that replaced a final entity."""
    if not entity.flow.is_final(entity.state):
        return None
    found: str | None = type(entity).objects.filter(retry_of=entity.pk).values_list("pk", flat=True).first()
    return found


def was_forced_in_archive(entity: Entity, steps: int) -> bool:
    """Whether an archived event was an override; queries only when fewer steps are stored than the entity made."""
    archived = Anchor.objects.filter(entity_type=entity.flow.entity_type, entity_id=entity.pk, was_forced=True)
    return steps < entity.version - 1 and archived.exists()


def list_parents(entity: Entity) -> list[tuple[str, str, str]]:
    """The entities it belongs to or is held by: relation, entity type, id."""
    links: list[Any] = [column for column in entity._meta.concrete_fields if column.is_relation]
    return [
        (column.name, column.related_model.flow.entity_type, getattr(entity, column.attname))
        for column in links
        if issubclass(column.related_model, Entity) and column.name != "retry_of" and getattr(entity, column.attname)
    ]


def parent_heading(flow: Flow) -> str:
    """`Workstream / run`: the heading of the parents that a list shows; empty for a machine without parents."""
    links: list[Any] = [column for column in flow.model._meta.concrete_fields if column.is_relation]
    names = [each.name for each in links if issubclass(each.related_model, Entity) and each.name != "retry_of"]
    return " / ".join(names[:MAX_PARENTS]).replace("_", " ").capitalize()


def has_last_error(flow: Flow) -> bool:
    return any(column.name == "last_error" for column in flow.model._meta.concrete_fields)


def _first_error_line(entity: Entity) -> str:
    return (str(getattr(entity, "last_error", "")).strip().splitlines() or [""])[0]
