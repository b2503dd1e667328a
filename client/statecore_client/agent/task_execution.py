"""The command of one task, with the log to which it writes and the folder through which it exchanges data."""

from __future__ import annotations

from collections.abc import Sequence

from .. import tracing
from ..clients import Client
from ..records import Json, Task
from ..refusals import LeaseLost, Refused, UnexpectedResponse, Unreachable
from ..slots.execution import COMPLETED, FAILED, Execution
from ..slots.log_sender import LogSender
from .command import CommandExecution, CommandResult, FailedStart
from .exchange import Exchange, UnusableResult
from .terminal import Terminal


class TaskExecution(Execution):
    """`client` repeats its calls without end; `brief` gives up after seconds."""

    def __init__(
        self,
        command: Sequence[str],
        task: Task,
        worker_id: str,
        terminal: Terminal,
        *,
        client: Client,
        brief: Client,
        fetches: bool,
    ) -> None:
        self.task, self.client = task, client
        self.exchange = Exchange(task)
        self.log = LogSender(brief, task)
        self.running = self._start(command, worker_id, terminal, fetches=fetches)

    def _start(self, command: Sequence[str], worker_id: str, terminal: Terminal, *, fetches: bool) -> Execution:
        try:
            if fetches:
                self.exchange.fetch(self.client)
        except (Refused, UnexpectedResponse, OSError) as error:
            return FailedStart(self.task, f"the artifacts of its dependencies cannot be fetched: {error}")
        try:
            # The command can continue the trace of its task.
            trace = {name.upper(): value for name, value in tracing.inject().items()}
            variables = {**self.exchange.variables, **trace}
            return CommandExecution(
                command, self.task, worker_id, terminal, variables=variables, on_output=self.log.add
            )
        except OSError as error:
            return FailedStart(self.task, f"the command cannot be started: {error}")

    def end(self) -> None:
        self.running.end()

    def wait(self, seconds: float) -> CommandResult:
        result = self.running.wait(seconds)
        assert isinstance(result, CommandResult)  # noqa: S101 - for the type checker
        self.log.close()
        return result

    def hand_over(self, trigger: str, fields: Json) -> tuple[str, Json]:
        """Stores the artifacts and adds the result to the report of a success; a failure of either is reported."""
        if trigger != COMPLETED:
            return trigger, fields
        try:
            result = self.exchange.read_result()
            self.exchange.store(self.client)
        except UnusableResult as error:
            return FAILED, {**fields, "error": f"the file of STATECORE_RESULT {error}"}
        except (LeaseLost, Unreachable):
            return trigger, fields  # the report itself is refused, or repeated
        except (Refused, OSError) as error:
            return FAILED, {**fields, "error": f"an artifact cannot be stored: {error}"}
        return trigger, fields if result is None else {**fields, "result": result}

    def close(self) -> None:
        self.log.discard()
        self.exchange.remove()
