"""Cycle detection in a dependency graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def find_cycle(dependencies: Mapping[Node, Sequence[Node]]) -> list[Node] | None:
    """Return the nodes of a cycle, the first one repeated at the end; None if there is no cycle."""
    visited: set[Node] = set()
    for start in dependencies:
        if start in visited:
            continue
        # An explicit stack, because plans can be deeper than Python's recursion limit.
        path: list[Node] = [start]
        stack: list[Iterator[Node]] = [iter(dependencies[start])]
        on_path = {start}
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                node = path.pop()
                on_path.discard(node)
                visited.add(node)
            elif following in on_path:
                return [*path[path.index(following) :], following]
            elif following not in visited and following in dependencies:
                path.append(following)
                on_path.add(following)
                stack.append(iter(dependencies[following]))
    return None
