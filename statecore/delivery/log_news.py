"""Announces to the followers of logs that a task has new lines. Followers also poll, so a lost message is harmless."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, NamedTuple

from .broadcast import Broadcaster

GROUP = "task-logs"
MESSAGE = "logs.news"  # the type of the messages
PAUSE = 0.02  # seconds between two messages: what comes meanwhile is sent together


class LogNews(NamedTuple):
    tasks: frozenset[str]

    def extend(self, following: LogNews) -> LogNews:
        return LogNews(self.tasks | following.tasks)

    def to_message(self) -> dict[str, Any]:
        return {"type": MESSAGE, "tasks": sorted(self.tasks)}


@cache
def _get_broadcaster(process: int) -> Broadcaster[LogNews]:
    """Returns the broadcaster of this process: a server may fork after it has started one."""
    return Broadcaster(GROUP, PAUSE)


def announce(*task_ids: str) -> None:
    """Announces new lines of these tasks; returns at once and raises nothing."""
    if task_ids:
        _get_broadcaster(os.getpid()).send(LogNews(frozenset(task_ids)))
