"""What changed between two snapshots, as a JSON merge patch (RFC 7396): only what differs, null for what is gone."""

from __future__ import annotations

from typing import Any

Tree = dict[str, Any]


def patch_between(old: Tree, new: Tree) -> Tree:
    found: Tree = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := patch_between(before, value):
                found[name] = inner
        elif name not in old or before != value:
            found[name] = value
    return found


def patched(old: Tree, patch: Tree) -> Tree:
    """How a reader brings its snapshot up to date."""
    made = dict(old)
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        elif isinstance(value, dict):
            before = made.get(name)
            made[name] = patched(before if isinstance(before, dict) else {}, value)
        else:
            made[name] = value
    return made
