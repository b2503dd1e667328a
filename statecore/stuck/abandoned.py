"""What a workstream leaves behind when it ends: gates and patches that nobody waits for any more."""

from __future__ import annotations

from typing import Any

PARTS = ("gates", "patches")


def mark_what_is_left(change: Any) -> None:
    """The reaction to the end of a workstream. They keep their states: they neither passed nor failed."""
    flow = change.entity.flow
    if flow.entity_type != "workstream" or not flow.is_final(change.entry.to_state):
        return
    for name in PARTS:
        parts = getattr(change.entity, name)
        parts.exclude(state__in=sorted(parts.model.flow.final)).update(abandoned=True)
