"""How long entities of a machine usually stay in a state: the median of what left it lately."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from statecore.journal import dwell_seconds
from statecore.records import Position

SAMPLE = 300


def medians(entity_type: str) -> dict[str, float]:
    lately = Position.objects.filter(entity_type=entity_type).order_by("-position")[:SAMPLE]
    stays: dict[str, list[float]] = defaultdict(list)
    for state, body in lately.values_list("event__from_state", "event__body"):
        if state:
            stays[state].append(dwell_seconds(body))
    return {state: median(seconds) for state, seconds in stays.items()}
