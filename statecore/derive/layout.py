"""Where the states of a machine stand in a drawing: in layers from the initial state down, few lines crossing.

Every line has a place of its own in each layer it passes, and its label one in the middle: nothing lies on anything.
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
    """A state, a label, or the place where a line passes a layer."""

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
    """From one state to another through the boxes between them; `label` is one of these."""

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
    """`edges` gives the size of each label; an edge from a state to itself has no place here."""
    boxes = {name: Box(name, *size) for name, size in states.items()}
    downward = _downward(initial, list(states), list(edges))
    for name, depth in _depths(list(states), downward.values()).items():
        boxes[name].layer = 2 * depth
    lines = [_line(boxes, edge, downward[edge], size) for edge, size in edges.items()]
    passed = [box for line in lines for box in line.through]
    layers = _layers([*boxes.values(), *passed])
    _order(layers)
    height = _place_down(layers)
    width = _place_across(layers)
    return Layout(boxes, lines, width, height)


def _downward(initial: str, states: Sequence[str], edges: Sequence[Edge]) -> dict[Edge, Edge]:
    """Each edge in the direction it is drawn down: those that lead back to where one came from are turned."""
    following: defaultdict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        following[source].append(target)
    done: set[str] = set()
    on_the_way: set[str] = set()
    turned: set[Edge] = set()

    def walk(state: str) -> None:
        on_the_way.add(state)
        for target in following[state]:
            if target in on_the_way:
                turned.add((state, target))
            elif target not in done:
                walk(target)
        on_the_way.discard(state)
        done.add(state)

    for state in (initial, *states):
        if state not in done:
            walk(state)
    return {(source, target): (target, source) if (source, target) in turned else (source, target)
            for source, target in edges}  # fmt: skip


def _depths(states: Sequence[str], edges: Iterable[Edge]) -> dict[str, int]:
    """One below the deepest that leads here."""
    depths = dict.fromkeys(states, 0)
    edges = list(edges)
    for _ in states:
        for source, target in edges:
            depths[target] = max(depths[target], depths[source] + 1)
    return depths


def _line(boxes: Mapping[str, Box], edge: Edge, drawn: Edge, size: Size) -> Line:
    upper, lower = boxes[drawn[0]], boxes[drawn[1]]
    middle = (upper.layer + lower.layer) // 2
    through = []
    for layer in range(upper.layer + 1, lower.layer):
        # Past a state it goes straight down, so that it does not touch it.
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


def _layers(boxes: Iterable[Box]) -> list[list[Box]]:
    found: defaultdict[int, list[Box]] = defaultdict(list)
    for box in boxes:
        found[box.layer].append(box)
    return [found[layer] for layer in sorted(found)]


def _order(layers: list[list[Box]]) -> None:
    """Down and up again, each box goes to the middle of its neighbours; the order with the fewest crossings stays."""
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for index in range(1, len(layers)) if down else range(len(layers) - 2, -1, -1):
            _sort(layers[index], layers[index - 1 if down else index + 1])
        if (count := _crossings(layers)) < fewest:
            best, fewest = [list(layer) for layer in layers], count
    layers[:] = best


def _sort(layer: list[Box], fixed: list[Box]) -> None:
    place = {box: number for number, box in enumerate(fixed)}
    here = {box: number for number, box in enumerate(layer)}
    layer.sort(
        key=lambda box: _middle([place[other] for other in (*box.above, *box.below) if other in place], here[box])
    )


def _middle(places: Sequence[float], otherwise: float) -> float:
    return sum(places) / len(places) if places else otherwise


def _crossings(layers: list[list[Box]]) -> int:
    count = 0
    for upper, lower in pairwise(layers):
        place = {box: number for number, box in enumerate(lower)}
        ends = [place[below] for box in upper for below in sorted(box.below, key=place.__getitem__)]
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
            wished = [_middle([other.x for other in others], box.x) for box, others in zip(layer, near, strict=True)]
            _spread(layer, wished)
    left = min(box.x - box.width / 2 for layer in layers for box in layer)
    for layer in layers:
        for box in layer:
            box.x -= left
    return max(box.x + box.width / 2 for layer in layers for box in layer)


def _spread(layer: list[Box], wished: list[float]) -> None:
    """As near to where each wishes to be as the order and the gaps allow: the middle of pushing right and left."""
    right, left = list(wished), list(wished)
    for index in range(1, len(layer)):
        right[index] = max(right[index], right[index - 1] + _apart(layer[index - 1], layer[index]))
    for index in range(len(layer) - 2, -1, -1):
        left[index] = min(left[index], left[index + 1] - _apart(layer[index], layer[index + 1]))
    for box, one, other in zip(layer, right, left, strict=True):
        box.x = (one + other) / 2


def _apart(box: Box, other: Box) -> float:
    return (box.width + other.width) / 2 + GAP_ACROSS
