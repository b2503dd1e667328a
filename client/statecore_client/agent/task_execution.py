"""The command of one task, with the log to which it writes while it runs."""

from __future__ import annotations

from collections.abc import Sequence

from ..records import Task
from ..slots.execution import Execution
from ..slots.log_sender import LogSender
from ..synchronous import Client
from .command import CommandExecution, CommandResult, FailedStart
from .terminal import Terminal


class TaskExecution(Execution):
    """`client` repeats its calls without end; `brief` gives up after seconds."""

    def __init__(
        self, command: Sequence[str], task: Task, worker_id: str, terminal: Terminal, *, client: Client, brief: Client
    ) -> None:
        self.task, self.client = task, client
        self.log = LogSender(brief, task)
        self.running = self._start(command, worker_id, terminal)

    def _start(self, command: Sequence[str], worker_id: str, terminal: Terminal) -> Execution:
        try:
            return CommandExecution(command, self.task, worker_id, terminal, self.log.add)
        except OSError as error:
            return FailedStart(self.task, f"the command cannot be started: {error}")

    def end(self) -> None:
        self.running.end()

    def wait(self, seconds: float) -> CommandResult:
        result = self.running.wait(seconds)
        assert isinstance(result, CommandResult)  # noqa: S101 - for the type checker
        self.log.close()
        return result

    def close(self) -> None:
        self.log.discard()
