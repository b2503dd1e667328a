"""The journal of an entity, and whether its row, events and hashes agree."""

from __future__ import annotations

import hashlib
from typing import Any

from statecore.journal import GENESIS, Event
from statecore.kernel.entity import Entity


def events(entity: Entity) -> list[Event]:
    kept = Event.objects.filter(entity_type=entity.flow.entity_type, entity_id=entity.pk)
    return list(kept.order_by("sequence"))


def path(entity: Entity) -> list[tuple[str, str]]:
    """Returns the triggers of an entity's events with the states they led to."""
    return [(event.trigger, event.to_state) for event in events(entity)]


def assert_consistent(entity: Any) -> Any:
    """Asserts that the row and its events agree, and returns the current row."""
    row = type(entity).objects.get(pk=entity.pk)
    state, previous = "", GENESIS
    answer = events(row)
    for sequence, event in enumerate(answer, start=1):
        assert (event.sequence, event.from_state, event.prev_hash) == (sequence, state, previous)
        assert hashlib.sha256(event.body.encode()).hexdigest() == event.hash
        state, previous = event.to_state, event.hash
    assert (row.version, row.state, row.chain_head) == (len(answer), state, previous)
    return row
