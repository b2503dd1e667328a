"""What a function of a worker gets besides its payload, and the exceptions it may raise."""

from __future__ import annotations

import threading
from typing import Any

from ..clients import Client
from ..processes.output import Output
from ..records import Json, Task
from ..slots.log_sender import STREAMS, LogSender


class Cancelled(Exception):
    """The task was cancelled or lost. Functions in threads get it from `raise_if_cancelled`."""


class TaskFailed(Exception):
    """Fails the task. Without `retry` it is not tried again, whatever retries remain.

    `tool_failed` is for the circuit breaker of the task's tool; None if the failure says nothing about the tool.
    """

    def __init__(
        self, error: str, *, retry: bool = True, exit_code: int | None = 1, tool_failed: bool | None = None
    ) -> None:
        super().__init__(error)
        self.retry, self.exit_code, self.tool_failed = retry, exit_code, tool_failed


class Context:
    """A task in progress. Its methods may be called from any thread."""

    def __init__(self, task: Task, worker_id: str, client: Client, sender: LogSender) -> None:
        self.task, self.worker_id = task, worker_id
        # Synchronous: an `async` function calls it with `asyncio.to_thread`.
        self.client = client
        self.output = Output()
        self._sender = sender
        self._lock = threading.Lock()
        self._progress: Json = {}
        self._cancelled = threading.Event()

    @property
    def attempt(self) -> int:
        return self.task.attempt

    @property
    def inputs(self) -> dict[str, Any]:
        """The results of the tasks that this one depends on, by their ids."""
        return self.task.inputs

    @property
    def previous(self) -> dict[str, Any] | None:
        """The outcome of the attempt before this one: `attempt`, `exit_code`, `error`, `output`."""
        return self.task.previous

    @property
    def cancelled(self) -> bool:
        """Whether the work is to end: the task was cancelled, lost or timed out, or the worker leaves."""
        return self._cancelled.is_set()

    def raise_if_cancelled(self) -> None:
        if self.cancelled:
            raise Cancelled(f"task {self.task.id} was cancelled")

    def wait_cancelled(self, seconds: float) -> bool:
        """Waits until the work is to end, at most `seconds`; returns whether it is."""
        return self._cancelled.wait(seconds)

    def progress(self, fraction: float | None = None, detail: str = "") -> None:
        """Sets how far the work is, from 0 to 1, with a short text; sent with the next heartbeat."""
        self._progress = {"fraction": fraction, "detail": detail}

    def log(self, text: str, stream: str = "stdout") -> None:
        """Adds a line to the log of the task, live, and to its output, of which the first and last 32 kB are stored."""
        if stream not in STREAMS:
            raise ValueError(f"the stream is stdout or stderr, not {stream!r}")
        data = f"{text}\n".encode(errors="replace")
        with self._lock:
            self.output.add(data)
            self._sender.add(stream, data)
