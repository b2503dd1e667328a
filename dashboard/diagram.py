"""The data of a state diagram: states with their look, edges with their triggers. The browser lays it out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from statecore.kernel.flow import Flow
from statecore.read_models.diagrams.mermaid import label_edges
from statecore.read_models.diagrams.tones import state_styles

from .templatetags.console import duration

Edge = tuple[str, str]


def machine_drawing(
    flow: Flow,
    *,
    link: Callable[[str], str] | None = None,
    counts: Mapping[str, int] | None = None,
    dwell: Mapping[str, float] | None = None,
    rates: Mapping[Edge, float] | None = None,
    forced: Iterable[Edge] = (),
    taken: Iterable[Edge] = (),
    here: str = "",
) -> dict[str, Any]:
    """`forced` edges that are not declared are drawn over the layout of the declared ones, which does not move."""
    declared, was_forced, was_taken = label_edges(flow), set(forced), set(taken)
    drawn = {**declared, **{edge: "forced" for edge in was_forced if edge not in declared and edge[0]}}
    return {
        "nodes": [
            {
                "id": look.state,
                "word": look.word,
                "tone": look.tone.value,
                "final": flow.is_final(look.state),
                "here": look.state == here,
                "href": link(look.state) if link else None,
                "count": counts.get(look.state, 0) if counts is not None else None,
                "dwell": duration(dwell[look.state]) if dwell and look.state in dwell else None,
            }
            for look in state_styles(flow.entity_type).values()
        ],
        "edges": [
            {
                "from": source,
                "to": target,
                "label": label,
                "rate": round((rates or {}).get((source, target), 0.0), 1),
                "taken": (source, target) in was_taken,
                "forced": (source, target) in was_forced,
                "declared": (source, target) in declared,
            }
            # A transition that stays in its state has no line.
            for (source, target), label in drawn.items()
            if source != target
        ],
    }
