"""What the journal says of an entity, and whether row, events and hashes still belong together."""

from __future__ import annotations

import hashlib
from typing import Any

from statecore.journal import GENESIS, Event
from statecore.kernel.entity import Entity


def events(entity: Entity) -> list[Event]:
    kept = Event.objects.filter(entity_type=entity.flow.entity_type, entity_id=entity.pk)
    return list(kept.order_by("sequence"))


def path(entity: Entity) -> list[tuple[str, str]]:
    """The states an entity was in, by the triggers that brought it there."""
    return [(event.trigger, event.to_state) for event in events(entity)]


def is_whole(entity: Any) -> Any:
    """Assert that row and events tell the same story, and return the row as it is now."""
    row = type(entity).objects.get(pk=entity.pk)
    state, previous = "", GENESIS
    told = events(row)
    for sequence, event in enumerate(told, start=1):
        assert (event.sequence, event.from_state, event.prev_hash) == (sequence, state, previous)
        assert hashlib.sha256(event.body.encode()).hexdigest() == event.hash
        state, previous = event.to_state, event.hash
    assert (row.version, row.state, row.chain_head) == (len(told), state, previous)
    return row
