"""The board, or a change of it, for somebody who sees some machines only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

# Where numbers stand by machine; those of all together say nothing about any of them.
BY_MACHINE = (("counts",), ("rates", "machines"), ("stuck", "machines"))


def of_machines(stats: dict[str, Any], seen: Collection[str]) -> dict[str, Any]:
    told = dict(stats)
    for place in BY_MACHINE:
        told = _narrowed(told, place, seen)
    return told


def _narrowed(told: dict[str, Any], place: tuple[str, ...], seen: Collection[str]) -> dict[str, Any]:
    """A merge patch may lack any of these."""
    name, *rest = place
    inner = told.get(name)
    if not isinstance(inner, dict):
        return told
    kept = _narrowed(inner, tuple(rest), seen) if rest else {kind: inner[kind] for kind in inner if kind in seen}
    return {**told, name: kept}
