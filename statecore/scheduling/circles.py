"""Finding a circle in what waits for what."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def circle(waits: Mapping[Node, Sequence[Node]]) -> list[Node] | None:
    """A way along the graph that ends where it began; None when there is none. Without recursion: plans are deep."""
    done: set[Node] = set()
    for start in waits:
        if start in done:
            continue
        path: list[Node] = [start]
        ahead: list[Iterator[Node]] = [iter(waits[start])]
        on_path = {start}
        while ahead:
            step = next(ahead[-1], None)
            if step is None:
                ahead.pop()
                node = path.pop()
                on_path.discard(node)
                done.add(node)
            elif step in on_path:
                return [*path[path.index(step) :], step]
            elif step not in done and step in waits:
                path.append(step)
                on_path.add(step)
                ahead.append(iter(waits[step]))
    return None
