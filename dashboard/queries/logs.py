"""The window of a task's log that its page shows, and the whole log as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from statecore.machines.task import Task
from statecore.read_models import task_logs
from statecore.read_models.task_logs import StoredLine, TaskState

WINDOW = 1_000  # lines of a page without scripts; with them, up to ten times as many are loaded


class LogWindow(NamedTuple):
    task: Task
    attempt: int | None  # None for all attempts
    attempts: list[int]
    search: str
    lines: list[StoredLine]
    earlier: int | None  # the number before which there are more lines
    is_live: bool  # the window has the newest lines, and more will come

    @property
    def last(self) -> int:
        return self.lines[-1].number if self.lines else 0

    @property
    def limit(self) -> int:
        return WINDOW


def read_window(task: Task, attempt: int | None, before: int | None, search: str) -> LogWindow:
    """The last lines, those before a number, or the last ones that contain a text."""
    if search:
        lines = task_logs.search(task.pk, search, WINDOW, attempt)
        return LogWindow(task, attempt, task_logs.list_attempts(task.pk), search, lines, None, is_live=False)
    found = task_logs.read_before(task.pk, before, WINDOW + 1, attempt)
    lines = found[-WINDOW:]
    state = TaskState(task.attempt, task.state)
    is_live = before is None and not state.has_ended(state.choose_attempt() if attempt is None else attempt)
    earlier = lines[0].number if len(found) > WINDOW else None
    return LogWindow(task, attempt, task_logs.list_attempts(task.pk), "", lines, earlier, is_live)


def iterate_text(task: Task, attempt: int | None) -> Iterator[bytes]:
    """The log as text in batches, one line for each line of the log, with its time and stream."""
    batch: list[str] = []
    for line in task_logs.iterate(task.pk, attempt):
        batch.append(f"{line.at} {line.stream} {line.text}\n")
        if len(batch) == WINDOW:
            yield "".join(batch).encode()
            batch = []
    if batch:
        yield "".join(batch).encode()
