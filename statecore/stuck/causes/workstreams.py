"""What a workstream waits for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ...machines.workstream import State, Workstream, all_its_tasks_are_created
from .. import words
from ..judging import nobody_in_particular
from .wait import Cause, Wait, first_wait

NOT_STARTED = {State.PLANNED, State.BLOCKED}


def cause(workstream: Workstream, at: datetime) -> Cause:
    if workstream.state in NOT_STARTED:
        return _before_it_is_ready(workstream, at)
    for children, done in _parts(workstream):
        if found := first_wait("waits for", children.filter(successor=None), done):
            return found
    if left := workstream.left_in_quarantine():
        return Wait("waits for", left)
    return words.standing(workstream, at, "none of its tasks, gates and patches is open")


def _before_it_is_ready(workstream: Workstream, at: datetime) -> Cause:
    if found := first_wait("waits for", workstream.depends_on.all(), {State.COMPLETED}):
        return found
    if missing := all_its_tasks_are_created(workstream, nobody_in_particular(at)):
        return words.standing(workstream, at, missing.detail)
    if workstream.run.state == "pending":
        return first_wait("waits for", type(workstream.run).objects.filter(pk=workstream.run_id), ()) or ""
    return words.standing(workstream, at, "nothing is in its way")


def _parts(workstream: Workstream) -> Iterator[tuple[Any, set[str]]]:
    """In the order in which they are waited for."""
    yield workstream.tasks, {"completed"}
    if workstream.state == State.VALIDATING:
        yield workstream.gates, {"PASSED"}
        yield workstream.patches, {"committed", "dropped"}
