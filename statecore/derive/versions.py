"""Change control: a declaration that changes must change its version as the change deserves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..kernel import registry

FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "machines"
SNAPSHOT = "machines.json"
LEVELS = ("major", "minor", "patch")

Description = dict[str, Any]


def snapshot_text() -> str:
    return json.dumps(describe(), indent=1, sort_keys=True) + "\n"


def describe() -> dict[str, Description]:
    return {flow.entity_type: flow.describe() for flow in registry.flows()}


def committed() -> dict[str, Description]:
    path = FOLDER / SNAPSHOT
    return json.loads(path.read_text()) if path.exists() else {}


def unversioned_changes(old: dict[str, Description], new: dict[str, Description]) -> Iterator[str]:
    """A sentence for each machine whose version does not answer for its change."""
    for name in sorted(old.keys() - new.keys()):
        yield f"{name} was removed: deprecate its moves first, then delete its entry from {SNAPSHOT} by hand"
    for name in sorted(old.keys() & new.keys()):
        needed = bump_needed(old[name], new[name])
        if needed and not _is_bumped(old[name]["version"], new[name]["version"], needed):
            yield (
                f"{name} changed and needs a {needed} version bump: it was {old[name]['version']}, "
                f"it is {new[name]['version']}"
            )


def bump_needed(old: Description, new: Description) -> str | None:
    """States come and go with a major version, so do lost moves; new moves and fields are minor, the rest is patch."""
    if _without_version(old) == _without_version(new):
        return None
    if _states(old) != _states(new) or _edges(old) - _edges(new) or _fields(old) - _fields(new):
        return "major"
    if _edges(new) - _edges(old) or _fields(new) - _fields(old):
        return "minor"
    return "patch"


def _without_version(description: Description) -> Description:
    return {key: value for key, value in description.items() if key != "version"}


def _states(description: Description) -> set[tuple[str, bool]]:
    return {(state["name"], state["terminal"]) for state in description["states"]}


def _edges(description: Description) -> set[tuple[str, str, str]]:
    return {(move["trigger"], source, move["target"]) for move in description["moves"] for source in move["sources"]}


def _fields(description: Description) -> set[tuple[str, str]]:
    return {(move["trigger"], field["name"]) for move in description["moves"] for field in move["fields"]}


def _is_bumped(old: str, new: str, level: str) -> bool:
    before, after = _numbers(old), _numbers(new)
    place = LEVELS.index(level) + 1
    return after[:place] > before[:place]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
