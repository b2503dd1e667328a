"""What a task waits for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from ...machines.task import State, Task
from .. import words
from . import gates
from .crew import why_nobody_takes
from .wait import Cause, Tale, Wait, first_wait
from .workers import is_silent

TAKES_TASKS = ("ready", "executing")
FAILED = ("FAILED",)


def cause(task: Task, at: datetime) -> Cause:
    return _BY_STATE[State(task.state)](task, at)


def _before_the_queue(task: Task, at: datetime) -> Cause:
    found = gates.waiting_for(task, "gates", FAILED) or gates.waiting_for(task, "entry_gates", FAILED)
    found = found or first_wait("waits for", task, "depends_on", done={State.COMPLETED})
    found = found or gates.waiting_for(task, "entry_gates")
    if found:
        return found
    if task.workstream.state not in TAKES_TASKS:
        return Wait("waits for", task.workstream)
    return words.standing(task, at, "nothing is in its way")


def _in_the_queue(task: Task, at: datetime) -> Cause:
    return Tale(words.standing(task, at, why_nobody_takes(task, at)), "worker")


def _at_work(task: Task, at: datetime) -> Cause:
    worker: Any = task.worker
    if is_silent(worker, at):
        return Wait("runs on", worker)
    allowed = words.length(timedelta(seconds=task.timeout_sec))
    late = f", past its time-out of {allowed}" if task.times_out_at() < at else ""
    return f"{words.standing(task, at)} on worker {worker.pk}{late}"


def _in_validation(task: Task, at: datetime) -> Cause:
    if found := gates.waiting_for(task, "gates"):
        return found
    if task.patch is not None and task.patch.state not in ("verified", "committed"):
        return Wait("waits for", task.patch)
    return words.standing(task, at, "nothing is in its way")


def _between_tries(task: Task, at: datetime) -> Cause:
    due = words.until(task.retry_at or task.state_entered_at, at)
    return f"retrying after {words.first_line(task.last_error) or 'a failure'}: the next try {due}"


_BY_STATE: dict[State, Callable[[Task, datetime], Cause]] = {
    State.PENDING: _before_the_queue,
    State.BLOCKED: _before_the_queue,
    State.QUEUED: _in_the_queue,
    State.RUNNING: _at_work,
    State.VALIDATING: _in_validation,
    State.RETRYING: _between_tries,
}
