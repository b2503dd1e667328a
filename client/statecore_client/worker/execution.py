"""Runs a function for one task: an `async` function in the event loop of the worker, another one in a thread."""

from __future__ import annotations

import asyncio
import threading
import traceback
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ..records import Json, Task
from ..slots.execution import COMPLETED, FAILED, Execution
from ..slots.log_sender import LogSender
from .context import Cancelled, Context, TaskFailed
from .function import Function

# How long work may take to end after it was cancelled.
GRACE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class FunctionResult:
    """The result of a function: a value, or an error."""

    output: str
    value: Any = None
    error: str = ""
    retry: bool = True
    exit_code: int | None = 1
    tool_failed: bool | None = None

    def build_report(self, task: Task, end_reason: str | None) -> tuple[str, Json]:
        fields: Json = {"attempt": task.attempt, "output": self.output}
        if end_reason is not None:
            return FAILED, {**fields, "error": end_reason, "tool_failed": None}
        if self.error:
            return FAILED, {**fields, **self._describe_failure()}
        expected = task.expected_exit_codes
        fields["exit_code"] = 0 if 0 in expected or not expected else expected[0]
        return COMPLETED, fields if self.value is None else {**fields, "result": self.value}

    def _describe_failure(self) -> Json:
        failure: Json = {"error": self.error, "exit_code": self.exit_code, "tool_failed": self.tool_failed}
        return failure if self.retry else {**failure, "retry": False}


class FunctionExecution(Execution):
    def __init__(
        self, function: Function, context: Context, sender: LogSender, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.function, self.context, self.sender, self.task = function, context, sender, context.task
        self.result: FunctionResult | None = None
        # Set when the function has returned, and when the work has ended or is to end.
        self.has_returned, self.may_return = threading.Event(), threading.Event()
        self.future: Future[None] | None = None
        if function.is_async:
            self.future = asyncio.run_coroutine_threadsafe(self._run_async(), loop)
        else:
            threading.Thread(target=self._run, name=f"task {self.task.id}", daemon=True).start()

    def read_progress(self) -> Json | None:
        return self.context._progress or None

    def end(self) -> None:
        self.context._cancelled.set()
        if self.future is not None:
            self.future.cancel()
        self.may_return.set()

    def wait(self, seconds: float) -> FunctionResult:
        result = self._wait_for_function(seconds)
        self.sender.close()
        return result

    def close(self) -> None:
        self.sender.discard()

    def _wait_for_function(self, seconds: float) -> FunctionResult:
        """Waits for the function. One that ignores its cancellation continues in its thread; its result is dropped."""
        self.may_return.wait(min(seconds, threading.TIMEOUT_MAX))
        if self.has_returned.is_set() and self.result is not None:
            return self.result
        timed_out = not self.context.cancelled
        self.end()
        self.has_returned.wait(GRACE_SECONDS)
        error = f"timed out after {seconds:g} s" if timed_out else "it was cancelled"
        return FunctionResult(self.context.output.text(), error=error, exit_code=None)

    def _run(self) -> None:
        try:
            value = self.function.call(*self.function.read_arguments(self.context))
            self._complete(self.function.serialize(value))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a function may raise anything
            self._fail(error)
        finally:
            self._return()

    async def _run_async(self) -> None:
        try:
            value = await self.function.call(*self.function.read_arguments(self.context))
            self._complete(self.function.serialize(value))
        except asyncio.CancelledError as error:
            self._fail(error)
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a function may raise anything
            self._fail(error)
        finally:
            self._return()

    def _complete(self, value: Any) -> None:
        self.result = FunctionResult(self.context.output.text(), value)

    def _fail(self, error: BaseException) -> None:
        retry = self.function.may_retry(error, self.task)
        if isinstance(error, TaskFailed):
            output = self.context.output.text()
            self.result = FunctionResult(
                output, error=str(error), retry=retry, exit_code=error.exit_code, tool_failed=error.tool_failed
            )
            return
        if not isinstance(error, Cancelled | asyncio.CancelledError):
            self.context.log("".join(traceback.format_exception(error)), "stderr")
        message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        self.result = FunctionResult(self.context.output.text(), error=message, retry=retry)

    def _return(self) -> None:
        self.has_returned.set()
        self.may_return.set()


class NoFunction(Execution):
    """The execution of a task that no function of the worker is for."""

    def __init__(self, task: Task, names: list[str]) -> None:
        self.task = task
        known = ", ".join(names)
        self.error = f"no function of this worker is for the task: its required_capabilities name none of {known}"

    def wait(self, seconds: float) -> FunctionResult:
        return FunctionResult("", error=self.error, retry=False, exit_code=None)
