"""A worker: typed functions that are called for tasks."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..clients import Client
from ..records import Task
from ..refusals import StatecoreError
from ..slots.crew import Crew
from ..slots.execution import Execution
from ..slots.log_sender import LogSender
from ..slots.settings import Settings
from .context import Context
from .event_loop import running_loop
from .execution import FunctionExecution, NoFunction
from .function import Function, describe

log = logging.getLogger("statecore.worker")

F = TypeVar("F", bound=Callable[..., Any])
Errors = tuple[type[Exception], ...]


class Worker:
    """Calls the function of each task that it claims, with heartbeats, retries and a graceful shutdown.

    A task is for the function whose name is among its `required_capabilities`. The server and the token come from
    STATECORE_URL and STATECORE_TOKEN unless they are given.
    """

    def __init__(
        self,
        name: str,
        *,
        capabilities: Iterable[str] = (),
        concurrency: int = 1,
        url: str | None = None,
        token: str | None = None,
        workstreams: Iterable[str] = (),
        heartbeat_seconds: float = 10.0,
        wait_seconds: float = 25.0,
        drain_seconds: float | None = 30.0,
    ) -> None:
        self.name, self.capabilities, self.workstreams = name, tuple(capabilities), tuple(workstreams)
        self.concurrency, self.drain_seconds = concurrency, drain_seconds
        self.heartbeat_seconds, self.wait_seconds = heartbeat_seconds, wait_seconds
        self.url, self.token = url, token
        self.functions: dict[str, Function] = {}
        self.default: Function | None = None
        self.crew: Crew | None = None

    def task(
        self,
        name: str | None = None,
        *,
        retries: int | None = None,
        retry_on: Errors = (Exception,),
    ) -> Callable[[F], F]:
        """Declares the function of tasks that require the capability `name`; without a name, of all other tasks.

        A failure is retried for the errors in `retry_on`, at most `retries` times, and never more often than the plan
        allows (`max_retries`).
        """

        def declare(call: F) -> F:
            function = describe(call, name or call.__name__, retries, retry_on)
            if name is None:
                self.default = function
            else:
                self.functions[name] = function
            return call

        return declare

    @property
    def failure(self) -> StatecoreError | None:
        """The refusal that ended the worker, if one did."""
        return self.crew.failure if self.crew else None

    def run(self) -> int:
        """Works until SIGTERM, Ctrl-C, `stop` or a shutdown by the server.

        Then tasks may finish within `drain_seconds`, and are handed back after that; a second signal hands them back
        at once. Returns the exit code: 0, 128 + the number of a second signal, or 1 after a refusal.
        """
        settings = self._build_settings()
        with running_loop(f"functions of {self.name}") as loop, Client(settings.url, settings.token) as client:

            def start(task: Task, worker_id: str) -> Execution:
                function = self._find_function(task)
                if function is None:
                    return NoFunction(task, sorted(self.functions))
                sender = LogSender(client, task)
                return FunctionExecution(function, Context(task, worker_id, client, sender), sender, loop)

            self.crew = Crew(settings, start, log.info)
            code = self.crew.run(self.drain_seconds)
        if self.crew.failure is not None:
            log.error("%s", self.crew.failure)
            return 1
        return code

    def stop(self) -> None:
        """Lets the tasks in progress finish, then ends `run`; any thread may call it."""
        if self.crew is not None:
            self.crew.stop()

    def _build_settings(self) -> Settings:
        url, token = self.url or os.environ.get("STATECORE_URL"), self.token or os.environ.get("STATECORE_TOKEN")
        if not url or not token:
            raise ValueError("which server? Set STATECORE_URL and STATECORE_TOKEN, or pass url and token")
        if not self.functions and self.default is None:
            raise ValueError(f"worker {self.name} has no functions: declare one with @worker.task(…)")
        return Settings(
            url=url, token=token, capabilities=tuple(dict.fromkeys([*self.capabilities, *self.functions])),
            workstreams=self.workstreams, name=self.name, concurrency=self.concurrency,
            heartbeat_seconds=self.heartbeat_seconds, wait_seconds=self.wait_seconds,
        )  # fmt: skip

    def _find_function(self, task: Task) -> Function | None:
        named = (self.functions[word] for word in task.required_capabilities if word in self.functions)
        return next(named, self.default)
