"""What a workstream waits for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ...machines.workstream import State, Workstream, all_its_tasks_are_created
from .. import words
from ..judging import nobody_in_particular
from .wait import Cause, Wait, first_wait

NOT_STARTED = {State.PLANNED, State.BLOCKED}


def cause(workstream: Workstream, at: datetime) -> Cause:
    if workstream.state in NOT_STARTED:
        return _before_it_is_ready(workstream, at)
    for children, done in _parts(workstream):
        if found := first_wait("waits for", workstream, children, done=done):
            return found
    if left := workstream.left_in_quarantine():
        return Wait("waits for", left)
    return words.standing(workstream, at, "none of its tasks, gates and patches is open")


def _before_it_is_ready(workstream: Workstream, at: datetime) -> Cause:
    if found := first_wait("waits for", workstream, "depends_on", done={State.COMPLETED}):
        return found
    if missing := all_its_tasks_are_created(workstream, nobody_in_particular(at)):
        return words.standing(workstream, at, missing.detail)
    if workstream.run.state == "pending":
        return Wait("waits for", workstream.run)
    return words.standing(workstream, at, "nothing is in its way")


def _parts(workstream: Workstream) -> Iterator[tuple[str, set[str]]]:
    """In the order in which they are waited for."""
    yield "tasks", {"completed"}
    if workstream.state == State.VALIDATING:
        yield "gates", {"PASSED"}
        yield "patches", {"committed", "dropped"}
