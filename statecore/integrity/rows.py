"""The rows against the journal: each row is where its last event left it, and each chain has its row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import connection

from ..journal import Event
from ..kernel.flow import Flow
from .finding import ERROR, LIMIT, Finding


def rows_agree_with_the_journal(flow: Flow) -> Iterator[Finding]:
    for entity_id, state, to_state, beyond in _select(_DISAGREEING, flow):
        if to_state is None:
            why = "the journal has no event for its version"
        elif beyond:
            why = "the journal goes on after its version"
        else:
            why = f"it is {state}, and its last event says {to_state} or another hash"
        yield Finding("row", ERROR, flow.entity_type, entity_id, why)


def chains_have_rows(flow: Flow) -> Iterator[Finding]:
    for (entity_id,) in _select(_ORPHANED, flow):
        yield Finding("row", ERROR, flow.entity_type, entity_id, "its events are there, and its row is not")


def final_states_were_not_left(flow: Flow) -> Iterator[Finding]:
    """Over the whole journal: nothing ever left a final state but by an exit that a decision allows."""
    exits = flow.final_exits()
    left = Event.objects.filter(entity_type=flow.entity_type, from_state__in=flow.final)
    for entity_id, from_state, to_state in left.values_list("entity_id", "from_state", "to_state").iterator():
        if (from_state, to_state) not in exits:
            yield Finding("final", ERROR, flow.entity_type, entity_id, f"it left the final {from_state} for {to_state}")


_DISAGREEING = """
    SELECT row.id, row.state, last.to_state, beyond.event_id FROM {table} AS row
    LEFT JOIN {events} AS last
      ON last.entity_type = %s AND last.entity_id = row.id AND last.sequence = row.version
    LEFT JOIN {events} AS beyond
      ON beyond.entity_type = %s AND beyond.entity_id = row.id AND beyond.sequence = row.version + 1
    WHERE last.event_id IS NULL OR beyond.event_id IS NOT NULL
       OR last.hash <> row.chain_head OR last.to_state <> row.state
    ORDER BY row.id LIMIT {limit}
"""

_ORPHANED = """
    SELECT entity_id FROM {events} WHERE entity_type = %s AND sequence = 1
    AND NOT EXISTS (SELECT 1 FROM {table} AS row WHERE row.id = entity_id) ORDER BY entity_id LIMIT {limit}
"""


def _select(query: str, flow: Flow) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(
            query.format(table=flow.model._meta.db_table, events=Event._meta.db_table, limit=LIMIT),
            [flow.entity_type] * query.count("%s"),
        )
        return list(cursor.fetchall())
