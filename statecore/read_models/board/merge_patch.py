"""JSON merge patches (RFC 7396): only the changed values, with null for removed ones."""

from __future__ import annotations

from typing import Any

Tree = dict[str, Any]


def make_merge_patch(old: Tree, new: Tree) -> Tree:
    """Returns the patch that turns `old` into `new`; it is empty if they are equal."""
    patch: Tree = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := make_merge_patch(before, value):
                patch[name] = inner
        elif name not in old or before != value:
            patch[name] = value
    return patch


def apply_merge_patch(old: Tree, patch: Tree) -> Tree:
    """Returns `old` with the changes of the patch, as a client computes it."""
    new = dict(old)
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        elif isinstance(value, dict):
            before = new.get(name)
            new[name] = apply_merge_patch(before if isinstance(before, dict) else {}, value)
        else:
            new[name] = value
    return new
