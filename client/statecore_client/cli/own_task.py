"""The task for which `statecore agent` runs a command, which names it and its attempt in the environment."""

from __future__ import annotations

import os

TASK, ATTEMPT = "STATECORE_TASK_ID", "STATECORE_ATTEMPT"


def complete(task: str | None, attempt: int | None) -> tuple[str | None, int | None]:
    """Returns the given task and attempt; without a task those of the environment, which also has the attempt of it."""
    own, text = os.environ.get(TASK) or None, os.environ.get(ATTEMPT, "")
    task = task or own
    if attempt is None and task is not None and task == own and text.isdecimal():
        attempt = int(text)
    return task, attempt
