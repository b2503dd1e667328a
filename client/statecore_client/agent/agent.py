"""The agent: runs a command for each task that its slots claim."""

from __future__ import annotations

from collections.abc import Sequence

from ..records import Task
from ..refusals import StatecoreError
from ..slots.crew import Crew
from ..slots.execution import Execution
from ..slots.settings import Settings
from .command import resolve_program
from .task_execution import TaskExecution
from .terminal import Terminal


class Agent:
    def __init__(self, settings: Settings, command: Sequence[str]) -> None:
        self.settings = settings
        self.command = resolve_program(command)
        self.terminal = Terminal()
        self.crew = Crew(settings, self._start, self.terminal.print_message)

    @property
    def failure(self) -> StatecoreError | None:
        return self.crew.failure

    def run(self) -> int:
        """Works until a signal or a shutdown by the server; after a first signal, tasks may finish.

        Returns 0, or 128 + the number of a second signal.
        """
        return self.crew.run()

    def _start(self, task: Task, worker_id: str) -> Execution:
        return TaskExecution(
            self.command,
            task,
            worker_id,
            self.terminal,
            client=self.crew.persistent,
            brief=self.crew.brief,
            fetches=self.settings.fetches_artifacts,
        )
