"""Announces to the followers of logs that a task has new lines. Followers also poll, so a lost message is harmless."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import broadcast

GROUP = "task-logs"
MESSAGE = "logs.news"  # the type of the messages
PAUSE = 0.02  # seconds between two messages: what comes meanwhile is sent together


class LogNews(NamedTuple):
    tasks: frozenset[str]

    def extend(self, following: LogNews) -> LogNews:
        return LogNews(self.tasks | following.tasks)

    def to_message(self) -> dict[str, Any]:
        return {"type": MESSAGE, "tasks": sorted(self.tasks)}


def announce(*task_ids: str) -> None:
    """Announces new lines of these tasks; returns at once and raises nothing."""
    if task_ids:
        broadcast.announce(GROUP, LogNews(frozenset(task_ids)), PAUSE)
