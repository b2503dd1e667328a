"""What a slot needs of the work on one task: a command of the agent, or a function of a `Worker`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from ..records import Json, Task

COMPLETED, FAILED = "execution_completed", "execution_failed"


class Result(Protocol):
    def build_report(self, task: Task, end_reason: str | None) -> tuple[str, Json]:
        """Returns the trigger that reports the result, and its fields.

        `end_reason` is the error to report if the slot ended the work, None if the work ended normally.
        """


class Execution(ABC):
    """The work on one task, from its start to its report. Most of its parts are optional."""

    task: Task

    @abstractmethod
    def wait(self, seconds: float) -> Result:
        """Waits until the work has ended, or ends it after `seconds`."""

    def end(self) -> None:  # noqa: B027 - work that has ended already needs none
        """Ends the work early. Any thread may call it at any time, also repeatedly."""

    def read_progress(self) -> Json | None:
        """Returns how far the work is, `fraction` and `detail`; None if that is not known."""
        return None

    def hand_over(self, trigger: str, fields: Json) -> tuple[str, Json]:
        """Sends what belongs to the result before it is reported, and returns the report, changed if that fails."""
        return trigger, fields

    def close(self) -> None:  # noqa: B027 - most have nothing to clean up
        """Cleans up after the report, or if nothing is reported."""


# Starts the work on a task as a worker. It may take a while, but does not wait for the work.
Start = Callable[[Task, str], Execution]
