"""The latest events of all machines, and how their states look."""

from __future__ import annotations

from typing import Any

from statecore.dashboard.labels import noun
from statecore.journal import Position, parse_event
from statecore.kernel import registry
from statecore.read_models.diagrams.tones import state_styles

FEED_SIZE = 30


def list_latest(entity_types: list[str]) -> list[dict[str, Any]]:
    """Newest first; reads the end of the position index, so the length of the journal does not matter."""
    rows = Position.objects.order_by("-position").values_list("entity_type", "event__body", "event__hash")[
        : 3 * FEED_SIZE
    ]
    wanted = set(entity_types)
    return [parse_event(body, hash_) for entity_type, body, hash_ in rows if entity_type in wanted][:FEED_SIZE]


def describe_states() -> dict[str, Any]:
    """Word, tone and shade of every state, for rows that the browser renders."""
    return {
        flow.entity_type: {
            "collection": flow.collection,
            "noun": noun(flow.entity_type),
            "states": {
                name: {"tone": look.tone.value, "word": look.word, "shade": look.shade}
                for name, look in state_styles(flow.entity_type).items()
            },
        }
        for flow in registry.flows()
    }
