"""Layered layout of a state diagram, from the initial state down, with few crossings.

Every line reserves a box in each layer it passes, and one for its label in the middle, so that nothing overlaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

SWEEPS = 12
GAP_ACROSS, GAP_DOWN = 18.0, 22.0


@dataclass(eq=False, slots=True)
class Box:
    """A state, a label, or the point where a line passes a layer."""

    name: str
    width: float
    height: float
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)


@dataclass(slots=True)
class Line:
    """A line from one state to another through the boxes between them, one of which is its `label`."""

    source: Box
    target: Box
    through: list[Box]
    label: Box


@dataclass(slots=True)
class Layout:
    states: dict[str, Box]
    lines: list[Line]
    width: float
    height: float


Size = tuple[float, float]
Edge = tuple[str, str]


def lay_out(initial: str, states: Mapping[str, Size], edges: Mapping[Edge, Size]) -> Layout:
    """Places states and edges. `states` and `edges` map to the size of the box or label; self-loops are not allowed."""
    boxes = {name: Box(name, *size) for name, size in states.items()}
    downward = _point_downward(initial, list(states), list(edges))
    for name, depth in _find_depths(list(states), downward.values()).items():
        boxes[name].layer = 2 * depth
    lines = [_make_line(boxes, edge, downward[edge], size) for edge, size in edges.items()]
    between = [box for line in lines for box in line.through]
    layers = _group_layers([*boxes.values(), *between])
    _order_layers(layers)
    height = _place_down(layers)
    width = _place_across(layers)
    return Layout(boxes, lines, width, height)


def _point_downward(initial: str, states: Sequence[str], edges: Sequence[Edge]) -> dict[Edge, Edge]:
    """Returns each edge in the direction it is drawn; edges that close a cycle are reversed."""
    following: defaultdict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        following[source].append(target)
    done: set[str] = set()
    on_path: set[str] = set()
    reversed_edges: set[Edge] = set()

    def walk(state: str) -> None:
        on_path.add(state)
        for target in following[state]:
            if target in on_path:
                reversed_edges.add((state, target))
            elif target not in done:
                walk(target)
        on_path.discard(state)
        done.add(state)

    for state in (initial, *states):
        if state not in done:
            walk(state)
    return {(source, target): (target, source) if (source, target) in reversed_edges else (source, target)
            for source, target in edges}  # fmt: skip


def _find_depths(states: Sequence[str], edges: Iterable[Edge]) -> dict[str, int]:
    """Returns the depth of each state: one below the deepest predecessor."""
    depths = dict.fromkeys(states, 0)
    edges = list(edges)
    for _ in states:
        for source, target in edges:
            depths[target] = max(depths[target], depths[source] + 1)
    return depths


def _make_line(boxes: Mapping[str, Box], edge: Edge, drawn: Edge, size: Size) -> Line:
    upper, lower = boxes[drawn[0]], boxes[drawn[1]]
    middle = (upper.layer + lower.layer) // 2
    through = []
    for layer in range(upper.layer + 1, lower.layer):
        # Beside a state the line runs straight down, so that it does not touch the state.
        width, height = size if layer == middle else (4.0, upper.height if layer % 2 == 0 else 0.0)
        through.append(Box("", width, height, layer))
    label = through[middle - upper.layer - 1]
    chain = [upper, *through, lower]
    for before, after in pairwise(chain):
        before.below.append(after)
        after.above.append(before)
    if edge != drawn:
        through = through[::-1]
    return Line(boxes[edge[0]], boxes[edge[1]], through, label)


def _group_layers(boxes: Iterable[Box]) -> list[list[Box]]:
    found: defaultdict[int, list[Box]] = defaultdict(list)
    for box in boxes:
        found[box.layer].append(box)
    return [found[layer] for layer in sorted(found)]


def _order_layers(layers: list[list[Box]]) -> None:
    """Orders the boxes of each layer by the mean position of their neighbours, sweeping down and up.

    Of the orders that it tries, it keeps the one with the fewest crossings.
    """
    best, fewest = [list(layer) for layer in layers], _count_crossings(layers)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for index in range(1, len(layers)) if down else range(len(layers) - 2, -1, -1):
            _sort(layers[index], layers[index - 1 if down else index + 1])
        if (count := _count_crossings(layers)) < fewest:
            best, fewest = [list(layer) for layer in layers], count
    layers[:] = best


def _sort(layer: list[Box], fixed: list[Box]) -> None:
    fixed_order = {box: number for number, box in enumerate(fixed)}
    order = {box: number for number, box in enumerate(layer)}
    layer.sort(
        key=lambda box: _compute_mean(
            [fixed_order[other] for other in (*box.above, *box.below) if other in fixed_order], order[box]
        )
    )


def _compute_mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _count_crossings(layers: list[list[Box]]) -> int:
    count = 0
    for upper, lower in pairwise(layers):
        order = {box: number for number, box in enumerate(lower)}
        ends = [order[below] for box in upper for below in sorted(box.below, key=order.__getitem__)]
        count += sum(left > right for index, left in enumerate(ends) for right in ends[index + 1 :])
    return count


def _place_down(layers: list[list[Box]]) -> float:
    top = 0.0
    for layer in layers:
        height = max(box.height for box in layer)
        for box in layer:
            box.y = top + height / 2
        top += height + GAP_DOWN
    return top - GAP_DOWN


def _place_across(layers: list[list[Box]]) -> float:
    for layer in layers:
        _spread(layer, [0.0] * len(layer))
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            near = [(box.above or box.below) if sweep % 2 == 0 else (box.below or box.above) for box in layer]
            targets = [
                _compute_mean([other.x for other in others], box.x) for box, others in zip(layer, near, strict=True)
            ]
            _spread(layer, targets)
    left = min(box.x - box.width / 2 for layer in layers for box in layer)
    for layer in layers:
        for box in layer:
            box.x -= left
    return max(box.x + box.width / 2 for layer in layers for box in layer)


def _spread(layer: list[Box], targets: list[float]) -> None:
    """Places boxes near their targets without overlap: halfway between pushing all to the right and all to the left."""
    right, left = list(targets), list(targets)
    for index in range(1, len(layer)):
        right[index] = max(right[index], right[index - 1] + _compute_distance(layer[index - 1], layer[index]))
    for index in range(len(layer) - 2, -1, -1):
        left[index] = min(left[index], left[index + 1] - _compute_distance(layer[index], layer[index + 1]))
    for box, one, other in zip(layer, right, left, strict=True):
        box.x = (one + other) / 2


def _compute_distance(box: Box, other: Box) -> float:
    return (box.width + other.width) / 2 + GAP_ACROSS
