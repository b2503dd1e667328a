"""The last events of all machines, in the order of their positions."""

from __future__ import annotations

from typing import Any

from dashboard.templatetags.console import noun
from statecore.derive.tones import looks
from statecore.journal import read
from statecore.kernel import registry
from statecore.records import Position

SIZE = 30


def latest(entity_types: list[str]) -> list[dict[str, Any]]:
    """The newest first; from the end of the order, so that it costs the same however long the journal is."""
    rows = Position.objects.order_by("-position").values_list("entity_type", "event__body", "event__hash")[: 3 * SIZE]
    wanted = set(entity_types)
    return [read(body, hash_) for entity_type, body, hash_ in rows if entity_type in wanted][:SIZE]


def all_looks() -> dict[str, Any]:
    """How each state of each machine looks, for a browser that writes rows of its own."""
    return {
        flow.entity_type: {
            "collection": flow.collection,
            "noun": noun(flow.entity_type),
            "states": {
                name: {"tone": look.tone.value, "word": look.word, "shade": look.shade}
                for name, look in looks(flow.entity_type).items()
            },
        }
        for flow in registry.flows()
    }
