"""What a slot needs of the work on one task: a command of the agent, or a function of a `Worker`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..records import Json, Task

COMPLETED, FAILED = "execution_completed", "execution_failed"


class Result(Protocol):
    def build_report(self, task: Task, end_reason: str | None) -> tuple[str, Json]:
        """Returns the trigger that reports the result, and its fields.

        `end_reason` is the error to report if the slot ended the work, None if the work ended normally.
        """


class Execution(Protocol):
    @property
    def task(self) -> Task: ...

    @property
    def progress(self) -> Json | None:
        """How far the work is: `fraction`, `detail`; None if that is not known."""

    def end(self) -> None:
        """Ends the work early. Any thread may call it at any time, also repeatedly."""

    def wait(self, seconds: float) -> Result:
        """Waits until the work has ended, or ends it after `seconds`."""


# Starts the work on a task as a worker, and returns at once.
Start = Callable[[Task, str], Execution]
