"""The rows against the journal: each row is where its last event left it, and each chain has its row.

The last event may have been retired: then the row stands where the anchor says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import connection
from django.db.models import Min

from ..journal import Event, EventKind
from ..kernel import registry
from ..kernel.flow import Flow
from ..records import Anchor
from .finding import ERROR, LIMIT, WARNING, Finding


def rows_agree_with_the_journal(flow: Flow, ids: list[str] | None = None) -> Iterator[Finding]:
    """All rows or those named; row and event are read by one statement, so a move in between is no alarm."""
    for entity_id, state, to_state, beyond in _select(_DISAGREEING, flow, ids):
        if to_state is None:
            why = "the journal has no event for its version"
        elif beyond:
            why = "the journal goes on after its version"
        else:
            why = f"it is {state}, and its last event says {to_state} or another hash"
        yield Finding("row", ERROR, flow.entity_type, entity_id, why)


def chains_have_rows(flow: Flow, ids: list[str] | None = None) -> Iterator[Finding]:
    for (entity_id,) in (*_select(_ORPHANED, flow, ids), *_select(_ORPHANED_ANCHORS, flow, ids)):
        yield Finding("row", ERROR, flow.entity_type, entity_id, "its events are there, and its row is not")


def final_states_were_not_left(flow: Flow) -> Iterator[Finding]:
    """Over the whole journal: nothing ever left a final state but by an exit that a decision allows."""
    exits = flow.final_exits()
    left = Event.objects.filter(entity_type=flow.entity_type, from_state__in=flow.final)
    for entity_id, from_state, to_state in left.values_list("entity_id", "from_state", "to_state").iterator():
        if (from_state, to_state) not in exits:
            yield Finding("final", ERROR, flow.entity_type, entity_id, f"it left the final {from_state} for {to_state}")


def moves_were_declared(flow: Flow) -> Iterator[Finding]:
    """A warning: a move may have been declared when it was made and not be any more."""
    declared = {(move.trigger, source, move.target) for move in flow.moves for source in move.sources}
    made = Event.objects.filter(entity_type=flow.entity_type, kind__in=(EventKind.NORMAL, EventKind.PROPAGATED))
    grouped = made.order_by().values_list("trigger", "from_state", "to_state").annotate(one=Min("entity_id"))
    for trigger, from_state, to_state, entity_id in grouped:
        if (trigger, from_state, to_state) not in declared:
            detail = f"it went from {from_state} to {to_state} by {trigger}, which is not declared"
            yield Finding("move", WARNING, flow.entity_type, entity_id, detail)


def chains_are_of_known_machines() -> Iterator[Finding]:
    known = [flow.entity_type for flow in registry.flows()]
    strange = Event.objects.exclude(entity_type__in=known).order_by("event_id").values_list("entity_type", "entity_id")
    for entity_type, entity_id in strange[:LIMIT]:
        yield Finding("machine", WARNING, entity_type, entity_id, "there is no such machine")


_DISAGREEING = """
    SELECT row.id, row.state, coalesce(last.to_state, anchor.to_state), beyond.event_id FROM {table} AS row
    LEFT JOIN {events} AS last
      ON last.entity_type = %s AND last.entity_id = row.id AND last.sequence = row.version
    LEFT JOIN {anchors} AS anchor
      ON anchor.entity_type = %s AND anchor.entity_id = row.id AND anchor.sequence = row.version
    LEFT JOIN {events} AS beyond
      ON beyond.entity_type = %s AND beyond.entity_id = row.id AND beyond.sequence = row.version + 1
    WHERE (coalesce(last.event_id, anchor.event_id) IS NULL OR beyond.event_id IS NOT NULL
       OR coalesce(last.hash, anchor.hash) <> row.chain_head
       OR coalesce(last.to_state, anchor.to_state) <> row.state) {among}
    ORDER BY row.id LIMIT {limit}
"""

_ORPHANED = """
    SELECT entity_id FROM {events} WHERE entity_type = %s AND sequence = 1
    AND NOT EXISTS (SELECT 1 FROM {table} AS row WHERE row.id = entity_id) {among} ORDER BY entity_id LIMIT {limit}
"""

_ORPHANED_ANCHORS = """
    SELECT DISTINCT entity_id FROM {anchors} WHERE entity_type = %s
    AND NOT EXISTS (SELECT 1 FROM {table} AS row WHERE row.id = entity_id) {among} ORDER BY entity_id LIMIT {limit}
"""


def _select(query: str, flow: Flow, ids: list[str] | None = None) -> list[tuple[Any, ...]]:
    names = {"table": flow.model._meta.db_table, "events": Event._meta.db_table, "anchors": Anchor._meta.db_table}
    marks = ", ".join(["%s"] * len(ids or ()))
    among = f"AND {'row.id' if query is _DISAGREEING else 'entity_id'} IN ({marks})" if ids else ""
    with connection.cursor() as cursor:
        params = [flow.entity_type] * query.count("%s")
        cursor.execute(query.format(**names, limit=LIMIT, among=among), [*params, *(ids or ())])
        return list(cursor.fetchall())
