"""The diagram of each machine is complete, without overlaps, and does not distinguish states by colour alone."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest

from statecore.kernel import registry
from statecore.kernel.flow import Flow
from statecore.read_models.diagrams.layout import Box, lay_out
from statecore.read_models.diagrams.mermaid import label_edges
from statecore.read_models.diagrams.svg import render_svg

SVG = "{http://www.w3.org/2000/svg}"


def flows() -> list[Flow]:
    return [flow for flow in registry.flows() if flow.model._meta.app_label == "statecore"]


@pytest.mark.parametrize("flow", flows(), ids=lambda flow: flow.entity_type)
def test_every_state_and_every_edge_is_drawn(flow: Flow) -> None:
    root = ElementTree.fromstring(render_svg(flow, {flow.initial: 1234}))  # noqa: S314 - our SVG
    states = {each.get("data-state"): each for each in root.iter(f"{SVG}g") if each.get("data-state")}
    assert set(states) == set(flow.states)
    assert "1,234" in "".join(states[flow.initial].itertext())
    assert {name for name, each in states.items() if len(each.findall(f"{SVG}rect")) == 2} == set(flow.final)
    drawn = {each.get("data-edge") for each in root.iter(f"{SVG}path")} - {None}
    assert drawn == {f"{source} {target}" for source, target in label_edges(flow) if source != target}
    words = "".join(root.itertext())
    assert all(move.trigger in words for move in flow.transitions)
    assert not list(root.iter(f"{SVG}script"))


@pytest.mark.parametrize("flow", flows(), ids=lambda flow: flow.entity_type)
def test_boxes_and_labels_do_not_overlap(flow: Flow) -> None:
    sizes = {edge: (8.0 * len(text), 13.0) for edge, text in label_edges(flow).items() if edge[0] != edge[1]}
    layout = lay_out(flow.initial, dict.fromkeys(flow.states, (100.0, 34.0)), sizes)
    boxes = [*layout.states.values(), *(line.label for line in layout.lines)]
    assert [(a.name, b.name) for a, b in combinations(boxes, 2) if overlap(a, b)] == []
    assert all(box.x - box.width / 2 >= 0 and box.x + box.width / 2 <= layout.width + 0.1 for box in boxes)


def overlap(one: Box, other: Box) -> bool:
    across = abs(one.x - other.x) < (one.width + other.width) / 2 - 0.01
    return across and abs(one.y - other.y) < (one.height + other.height) / 2 - 0.01
