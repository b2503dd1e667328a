"""Keeps the attempts at tasks that end without completing them."""

from __future__ import annotations

from typing import Any

from ..journal import EventKind
from ..machines.task import State
from ..records import task_attempt
from ..records.task_attempt import Ended
from ..transitions.change import Change

WORKED_IN = (State.RUNNING, State.VALIDATING)
# How an attempt goes on, and how it completes its task: neither is recorded as its end.
GOES_ON = ("execution_completed", "validation_passed")


def keep(changes: list[Change]) -> None:
    """Record the attempts that end with these changes of tasks that were worked on."""
    ended = [_ended(change) for change in changes if _ends(change)]
    if ended:
        task_attempt.record(ended)


def _ends(change: Change) -> bool:
    return change.entry.kind != EventKind.EDITED and change.before["started_at"] is not None


def _ended(change: Change) -> Ended:
    """An attempt in validation ended when it was reported; what ends it now is the verdict."""
    before, after, entry = change.before, change.after, change.entry
    was_reported = entry.from_state == State.VALIDATING
    error: Any = after["last_error"] if after["last_error"] is not before["last_error"] else ""
    return Ended(
        entry.entity_id,
        before["attempt"],
        before["last_worker"],
        before["started_at"],
        before["state_entered_at"] if was_reported else entry.timestamp,
        entry.trigger,
        after["exit_code"],
        error or entry.as_dict()["reason"] or "",
        after["output"],
        before["patch_id"] or "",
        before["result"],
    )
