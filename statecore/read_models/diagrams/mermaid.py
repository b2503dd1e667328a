"""A machine as a Mermaid state diagram."""

from __future__ import annotations

from collections import defaultdict

from ...kernel.flow import Flow


def render_mermaid(flow: Flow) -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {flow.initial}"]
    lines += [f"    {source} --> {target}: {label}" for (source, target), label in label_edges(flow).items()]
    lines += [f"    {state} --> [*]" for state in flow.states if flow.is_final(state)]
    return "\n".join(lines) + "\n"


def label_edges(flow: Flow) -> dict[tuple[str, str], str]:
    """Returns each edge with its triggers, in the order of the states."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for transition in flow.transitions:
        for source in transition.sources:
            found[source, transition.target].append(transition.trigger)
    order = {state: place for place, state in enumerate(flow.states)}
    return {
        edge: ", ".join(dict.fromkeys(triggers))
        for edge, triggers in sorted(found.items(), key=lambda item: (order[item[0][0]], order[item[0][1]]))
    }
