"""A page of a machine's entities: found by an index, paged by a key, never counted.

Without a search they come in the order of their last move, which the journal knows; no table has to be sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from statecore.journal import Event, EventKind
from statecore.kernel.entity import Entity
from statecore.kernel.flow import Flow
from statecore.kernel.indexes import is_live
from statecore.records import Anchor
from statecore.records.commit_order import EVENTS, POSITIONS

from .bounded import in_time
from .search import Search

SIZE = 50
RECENT, LONGEST, BY_ID = "recent", "longest", "id"
LOOK, LONG_LOOK = 200, 4_000  # positions, for a page and for one that would stay nearly empty
FEW = 1_000  # entities of a machine that are asked one by one where they moved last
BEYOND_ALL = 2**63 - 1  # no position is as high
# Never shown in a list, and some of them are long.
HEAVY = {
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
    belongs: list[tuple[str, str, str]]
    said: str
    is_forced: bool = False


@dataclass(slots=True)
class Page:
    rows: list[Row]
    next: str = ""
    order: str = BY_ID
    orders: list[str] = field(default_factory=list)


def page(flow: Flow, search: Search, *, after: str = "", order: str = "") -> Page:
    orders = orders_of(flow, search)
    order = order if order in orders else orders[0]
    with in_time():
        entities, following = _recent(flow, after) if order == RECENT else _found(flow, search, order, after)
        forced = _ever_forced(flow, [entity.pk for entity in entities])
    rows = [Row(entity, belongs_to(entity), _said(entity), entity.pk in forced) for entity in entities]
    return Page(rows, following, order, orders)


def orders_of(flow: Flow, search: Search) -> list[str]:
    """Longest in its state first needs the index over live rows, so it is offered for one live state."""
    if not search.conditions and not search.states:
        return [RECENT, BY_ID]
    one_live = len(search.states) == 1 and not flow.is_final(search.states[0])
    return [LONGEST, BY_ID] if one_live else [BY_ID]


def _found(flow: Flow, search: Search, order: str, after: str) -> tuple[list[Entity], str]:
    rows = _ordered(filtered(flow, search), order, after).defer(*_heavy(flow))
    found = list(rows[: SIZE + 1])
    return found[:SIZE], _key(found[SIZE - 1], order) if len(found) > SIZE else ""


def _recent(flow: Flow, after: str) -> tuple[list[Entity], str]:
    """By their last moves, and where to go on. A page may be short, or empty, and there is more nevertheless."""
    start = min(int(after), BEYOND_ALL) if after.isascii() and after.isdigit() else BEYOND_ALL
    found, before = _last_moves(flow, start, LOOK)
    if before is not None and len(found) < SIZE:
        if len(found) >= SIZE / 2:
            more, before = _last_moves(flow, before, LOOK)
            found += more
        else:
            found, before = _last_moves_of_few(flow, start) if _are_few(flow) else _last_moves(flow, start, LONG_LOOK)
    if len(found) > SIZE:
        del found[SIZE:]
        before = found[-1][0]
    there = flow.model.objects.defer(*_heavy(flow)).in_bulk([pk for _position, pk in found])
    return [there[pk] for _position, pk in found if pk in there], "" if before is None else str(before)


def _last_moves(flow: Flow, before: int, many: int) -> tuple[list[tuple[int, str]], int | None]:
    """Where each was and whose, among so many moves back from a position, and how far that is if there are more.

    An event that was not its entity's last is passed over: the entity stands further up. One that moves all the time
    fills the journal with those.
    """
    moves = _moves_before(flow, before, many)
    found = [(position, pk) for position, pk, is_last in moves if is_last]
    return found, moves[-1][0] if len(moves) == many else None


def _moves_before(flow: Flow, before: int, many: int) -> list[tuple[int, str, bool]]:
    """Where each was and whose, and whether it was the last one of its entity.

    Of the moves that were retired the last one of each entity is known, which is the one that counts.
    """
    one_side: list[Any] = [flow.entity_type, before, many]
    return _asked(_MOVES, flow, [*one_side, *one_side, many])


def _are_few(flow: Flow) -> bool:
    return len(flow.model.objects.values_list("pk")[: FEW + 1]) <= FEW


def _last_moves_of_few(flow: Flow, before: int) -> tuple[list[tuple[int, str]], int | None]:
    """The same from the other side: of each entity where its last move stands. No more of them than a page needs."""
    found = _asked(_LAST_MOVES, flow, [flow.entity_type, flow.entity_type, before, SIZE + 1])
    return found, found[SIZE - 1][0] if len(found) > SIZE else None


def _asked(statement: str, flow: Flow, params: list[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement.format(entities=flow.model._meta.db_table), params)
        return list(cursor.fetchall())


# Both in the order of an index, and neither further than a page needs.
_MOVES = f"""
    SELECT moved.position, moved.entity_id, entity.id IS NOT NULL FROM (
        SELECT * FROM (SELECT p.position, e.entity_id, e.sequence
                       FROM {POSITIONS} AS p JOIN {EVENTS} AS e USING (event_id)
                       WHERE p.entity_type = %s AND p.position < %s ORDER BY p.position DESC LIMIT %s) AS here
        UNION ALL
        SELECT * FROM (SELECT a.position, a.entity_id, a.sequence FROM {Anchor._meta.db_table} AS a
                       WHERE a.entity_type = %s AND a.position < %s ORDER BY a.position DESC LIMIT %s) AS retired
        ORDER BY 1 DESC LIMIT %s) AS moved
    LEFT JOIN {{entities}} AS entity ON entity.id = moved.entity_id AND entity.version = moved.sequence
    ORDER BY moved.position DESC
"""  # noqa: S608 - names of our own tables
# Materialized, or the planner would walk back through the order of positions, which may take for ever.
_LAST_MOVES = f"""
    WITH moved AS MATERIALIZED (
        SELECT p.position, entity.id FROM {{entities}} AS entity
        JOIN {EVENTS} AS e ON e.entity_type = %s AND e.entity_id = entity.id AND e.sequence = entity.version
        JOIN {POSITIONS} AS p USING (event_id)
        UNION ALL
        SELECT a.position, entity.id FROM {{entities}} AS entity
        JOIN {Anchor._meta.db_table} AS a
            ON a.entity_type = %s AND a.entity_id = entity.id AND a.sequence = entity.version)
    SELECT position, id FROM moved WHERE position < %s ORDER BY position DESC LIMIT %s
"""  # noqa: S608 - names of our own tables


def filtered(flow: Flow, search: Search) -> QuerySet[Any]:
    rows: QuerySet[Any] = flow.model.objects.filter(*search.conditions)
    if len(search.states) == 1:
        rows = rows.filter(state=search.states[0])
    elif search.states:
        rows = rows.filter(state__in=search.states)
    if search.states and not any(map(flow.is_final, search.states)):
        rows = rows.filter(is_live(flow.final))
    return rows


def _ordered(rows: QuerySet[Any], order: str, after: str) -> QuerySet[Any]:
    if order == BY_ID:
        return (rows.filter(pk__lt=after) if after else rows).order_by("-pk")
    moment, _, pk = after.partition("~")
    if then := _moment(moment):
        rows = rows.filter(Q(state_entered_at__gt=then) | Q(state_entered_at=then, pk__gt=pk))
    return rows.order_by("state_entered_at", "pk")


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _key(entity: Entity, order: str) -> str:
    return str(entity.pk) if order == BY_ID else f"{entity.state_entered_at.isoformat()}~{entity.pk}"


def _heavy(flow: Flow) -> list[str]:
    return [column.name for column in flow.model._meta.concrete_fields if column.name in HEAVY]


def _ever_forced(flow: Flow, ids: list[str]) -> set[str]:
    events = Event.objects.filter(entity_type=flow.entity_type, entity_id__in=ids, kind=EventKind.OVERRIDE)
    retired = Anchor.objects.filter(entity_type=flow.entity_type, entity_id__in=ids, was_forced=True)
    return {pk for (pk,) in events.values_list("entity_id").union(retired.values_list("entity_id"))}


def forceable(entity: Entity, heir: str | None) -> list[str]:
    """The states it can be forced into; what has an heir stays where it ended."""
    flow, here = entity.flow, entity.state
    return [] if heir else [state for state in flow.states if state != here and flow.may_leave(here, state)]


def successor(entity: Entity) -> str | None:
    """Who was started afresh in its place."""
    if not entity.flow.is_final(entity.state):
        return None
    found: str | None = type(entity).objects.filter(retry_of=entity.pk).values_list("pk", flat=True).first()
    return found


def was_forced_long_ago(entity: Entity, steps: int) -> bool:
    """In what was retired by now; asked only of whom some steps are not here."""
    retired = Anchor.objects.filter(entity_type=entity.flow.entity_type, entity_id=entity.pk, was_forced=True)
    return steps < entity.version - 1 and retired.exists()


def belongs_to(entity: Entity) -> list[tuple[str, str, str]]:
    """What it is part of or held by: the name of the relation, the machine and the id."""
    links: list[Any] = [column for column in entity._meta.concrete_fields if column.is_relation]
    return [
        (column.name, column.related_model.flow.entity_type, getattr(entity, column.attname))
        for column in links
        if issubclass(column.related_model, Entity) and column.name != "retry_of" and getattr(entity, column.attname)
    ]


def _said(entity: Entity) -> str:
    """The first line of its last error, if it has one."""
    return (str(getattr(entity, "last_error", "")).strip().splitlines() or [""])[0]
