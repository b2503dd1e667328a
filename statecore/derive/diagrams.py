"""A machine as a Mermaid state diagram."""

from __future__ import annotations

from collections import defaultdict

from ..kernel.flow import Flow


def mermaid(flow: Flow) -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {flow.initial}"]
    lines += [f"    {source} --> {target}: {label}" for (source, target), label in edges(flow).items()]
    lines += [f"    {state} --> [*]" for state in flow.states if flow.is_final(state)]
    return "\n".join(lines) + "\n"


def edges(flow: Flow) -> dict[tuple[str, str], str]:
    """Each edge once, in the order of the states, with the triggers that take it."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for move in flow.moves:
        for source in move.sources:
            found[source, move.target].append(move.trigger)
    order = {state: place for place, state in enumerate(flow.states)}
    return {
        edge: ", ".join(dict.fromkeys(triggers))
        for edge, triggers in sorted(found.items(), key=lambda item: (order[item[0][0]], order[item[0][1]]))
    }
