"""Compares machine declarations with the committed snapshot and checks the required version bumps."""

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


def render_snapshot() -> str:
    return json.dumps(describe_machines(), indent=1, sort_keys=True) + "\n"


def describe_machines() -> dict[str, Description]:
    return {flow.entity_type: flow.describe() for flow in registry.flows()}


def read_snapshot() -> dict[str, Description]:
    path = FOLDER / SNAPSHOT
    return json.loads(path.read_text()) if path.exists() else {}


def find_unversioned_changes(old: dict[str, Description], new: dict[str, Description]) -> Iterator[str]:
    """Yields an error message for each changed machine without the required version bump."""
    for name in sorted(old.keys() - new.keys()):
        yield f"{name} was removed: deprecate its transitions first, then delete its entry from {SNAPSHOT} by hand"
    for name in sorted(old.keys() & new.keys()):
        needed = get_required_bump(old[name], new[name])
        if needed and not _is_bumped(old[name]["version"], new[name]["version"], needed):
            yield (
                f"{name} changed and needs a {needed} version bump: it was {old[name]['version']}, "
                f"it is {new[name]['version']}"
            )


def get_required_bump(old: Description, new: Description) -> str | None:
    """Returns major if states, transitions or fields are removed, minor if added, otherwise patch or None.

    A state that becomes final, or is final no more, counts as removed.
    """
    if _without_version(old) == _without_version(new):
        return None
    if _states(old) - _states(new) or _edges(old) - _edges(new) or _fields(old) - _fields(new):
        return "major"
    if _states(new) - _states(old) or _edges(new) - _edges(old) or _fields(new) - _fields(old):
        return "minor"
    return "patch"


def _without_version(description: Description) -> Description:
    return {key: value for key, value in description.items() if key != "version"}


def _states(description: Description) -> set[tuple[str, bool]]:
    return {(state["name"], state["terminal"]) for state in description["states"]}


def _edges(description: Description) -> set[tuple[str, str, str]]:
    return {
        (each["trigger"], source, each["target"]) for each in description["transitions"] for source in each["sources"]
    }


def _fields(description: Description) -> set[tuple[str, str]]:
    return {(each["trigger"], field["name"]) for each in description["transitions"] for field in each["fields"]}


def _is_bumped(old: str, new: str, level: str) -> bool:
    before, after = _numbers(old), _numbers(new)
    length = LEVELS.index(level) + 1
    return after[:length] > before[:length]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
