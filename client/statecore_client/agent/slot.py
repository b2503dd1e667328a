"""A slot of the agent: one registered worker with its heartbeats and one task at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .. import (
    Client,
    Conflict,
    HeartbeatReply,
    LeaseLost,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    Refused,
    StatecoreError,
    Task,
    UnexpectedResponse,
    Unreachable,
)
from .command import COMPLETED, FAILED, CommandResult, Execution, build_start_failure
from .exchange import Exchange, UnusableResult
from .settings import Settings
from .terminal import Terminal

SHUTDOWN = "shutdown"
TIMED_OUT = "max_timeout_exceeded"  # the trigger that ends an unresponsive worker; an idle one is shut down
PAUSE = 0.5


OnReply = Callable[[HeartbeatReply], None]
ListHeldTasks = Callable[[], list[Task]]


class Heartbeats:
    """Sends a heartbeat every few `seconds`, in a thread, and passes each reply to `on_reply`."""

    def __init__(
        self,
        client: Client,
        worker_id: str,
        seconds: float,
        list_held_tasks: ListHeldTasks,
        on_reply: OnReply,
        terminal: Terminal,
    ) -> None:
        self.client, self.worker_id, self.seconds, self.terminal = client, worker_id, seconds, terminal
        self.list_held_tasks, self.on_reply = list_held_tasks, on_reply
        self.stopped = threading.Event()
        self.is_offline = False
        self.thread = threading.Thread(target=self._run, name=f"heartbeats of {worker_id}", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.stopped.set()

    def _run(self) -> None:
        last = time.monotonic()
        while not self.stopped.wait(min(PAUSE, self.seconds)):
            if time.monotonic() < last + self._compute_interval():
                continue
            last = time.monotonic()
            try:
                self.on_reply(self.client.send_heartbeat(self.worker_id, holds=self.list_held_tasks()))
            except (NotAuthenticated, PermissionDenied, NotFound) as refusal:
                # The next claim or report of the slot gets the same refusal, which ends the slot.
                self.terminal.print_message(f"{self.worker_id}: {refusal}")
                return
            except StatecoreError as error:
                self._report_outage(error)
                continue
            self._report_recovery()

    def _compute_interval(self) -> float:
        """Returns the seconds between heartbeats: less than configured if a task requires them more often."""
        return min([self.seconds, *(task.heartbeat_sec / 3 for task in self.list_held_tasks())])

    def _report_outage(self, error: StatecoreError) -> None:
        if not self.is_offline and not self.stopped.is_set():
            self.terminal.print_message(f"{self.worker_id}: heartbeats fail, retrying ({error})")
        self.is_offline = True

    def _report_recovery(self) -> None:
        if self.is_offline:
            self.terminal.print_message(f"{self.worker_id}: the server responds again")
        self.is_offline = False


class Slot:
    """`persistent` retries its calls without end; `brief` gives up after seconds."""

    def __init__(
        self, settings: Settings, command: list[str], persistent: Client, brief: Client, terminal: Terminal
    ) -> None:
        self.settings, self.command, self.persistent, self.brief = settings, command, persistent, brief
        self.terminal = terminal
        self.lock = threading.Lock()
        self.worker_id = settings.new_worker_id()
        self.leaving = self.signed_off = False
        self.has_left = threading.Event()
        self.execution: Execution | None = None
        self.end_reason: str | None = None  # why the agent ended the command
        self.may_report = True  # False after the server has cancelled the task
        self.heartbeats: Heartbeats | None = None
        self.failure: StatecoreError | None = None
        self.thread = threading.Thread(target=self._run, name="slot", daemon=True)

    # Called from other threads

    def leave(self) -> bool:
        """Makes the slot leave after its current task. Returns whether there is one."""
        with self.lock:
            self.leaving = True
            return self.execution is not None

    def kill(self, reason: str, *, may_report: bool) -> None:
        """Ends the running command, if there is one."""
        with self.lock:
            if self.execution and self.end_reason is None:
                self.end_reason, self.may_report = reason, may_report
                self.execution.end()

    def sign_off(self) -> None:
        """Shuts the worker down on the server, so that others can claim its tasks; repeating it has no effect."""
        with self.lock:
            is_first, self.signed_off = not self.signed_off, True
        if not is_first:
            return
        if self.heartbeats:
            self.heartbeats.stop()
        try:
            self._return_tasks()
        except StatecoreError as error:
            if self.failure is None:
                self.terminal.print_message(f"{self.worker_id}: could not sign off: {error}")
        self.has_left.set()

    def _return_tasks(self) -> None:
        """Shuts the worker down, so that it gets no more tasks, then fails the tasks that it has not started.

        It holds such tasks if the response to a claim was lost.
        """
        with suppress(Conflict, NotFound):  # already shut down, or never registered
            self.brief.fire("workers", self.worker_id, "shutdown_requested", reason="the agent left")
        for task in self.brief.list_held_tasks(self.worker_id):
            error = "the agent left before it started the task"
            self.brief.fail_task(task.id, attempt=task.attempt, error=error, tool_failed=None)

    # The thread of the slot

    def _run(self) -> None:
        try:
            self._register()
            to_do: deque[Task] = deque()
            while not self.leaving:
                if not to_do:
                    to_do.extend(self._claim())
                if to_do:
                    to_do.extend(self._work(to_do.popleft()))
        except StatecoreError as error:
            self.failure = error
            self.terminal.print_message(f"{self.worker_id}: {error}")
        finally:
            self.sign_off()

    def _register(self) -> None:
        settings = self.settings
        try:
            self.persistent.register_worker(settings.capabilities, worker_id=self.worker_id, affinity=settings.affinity)
        except Conflict as refusal:
            if refusal.code != "duplicate_id":  # a duplicate id is ours: the answer to an earlier attempt was lost
                raise
        able = f" for {', '.join(settings.capabilities)}" if settings.capabilities else ""
        self.terminal.print_message(f"{self.worker_id}: registered{able}")
        self.heartbeats = Heartbeats(
            self.brief, self.worker_id, settings.heartbeat_seconds, self._list_held_tasks, self._obey, self.terminal
        )

    def _claim(self) -> list[Task]:
        started = time.monotonic()
        try:
            found = self.persistent.claim_tasks(self.worker_id, limit=1, wait=self.settings.wait_seconds)
        except Conflict:
            return self._resolve_refused_claim()
        if not found and not self.leaving:  # avoids a busy loop if the server does not wait
            time.sleep(max(0.0, PAUSE - (time.monotonic() - started)))
        return found

    def _resolve_refused_claim(self) -> list[Task]:
        """Returns the tasks that the worker already holds, because the response to an earlier claim was lost.

        A claim is also refused if the worker was shut down; then the slot leaves or registers again.
        """
        reply = self.persistent.send_heartbeat(self.worker_id)
        if reply.state == SHUTDOWN:
            self._leave_or_register_again()
            return []
        if reply.requests_shutdown:
            self.leaving = True
        held = list(self.persistent.list_held_tasks(self.worker_id))
        for task in held:
            task.inputs = self.persistent.get_inputs(task.id)
        if not held and not self.leaving:
            time.sleep(PAUSE)  # the worker is not idle yet, or unresponsive until its heartbeat is processed
        return held

    def _leave_or_register_again(self) -> None:
        if self.heartbeats:
            self.heartbeats.stop()
        if self.leaving or not self._timed_out_on_server():
            self.terminal.print_message(f"{self.worker_id}: was shut down, leaving")
            self.leaving = True
            return
        self.terminal.print_message(f"{self.worker_id}: was shut down after missed heartbeats, registering again")
        self.worker_id = self.settings.new_worker_id()
        self._register()

    def _timed_out_on_server(self) -> bool:
        *_, last = self.brief.list_history("workers", self.worker_id)
        was_silent = last.actor == "system" and last.metadata.get("heartbeat_status") == "missed"
        return last.trigger == TIMED_OUT or was_silent

    def _list_held_tasks(self) -> list[Task]:
        execution = self.execution
        return [execution.task] if execution else []

    def _obey(self, reply: HeartbeatReply) -> None:
        """Carries out the commands of the server: cancels the task, or leaves."""
        execution = self.execution
        if execution and reply.cancels(execution.task):
            self.kill("it was cancelled", may_report=False)
        if reply.requests_shutdown and not self.leaving:
            if reply.state == SHUTDOWN and self._timed_out_on_server():
                return  # the next claim is refused, and the slot registers again
            is_busy = self.leave()
            when = ", after this task" if is_busy else ""
            self.terminal.print_message(f"{self.worker_id}: the server requests a shutdown{when}")
            if not is_busy:
                self.sign_off()

    # One task

    def _work(self, task: Task) -> list[Task]:
        """Runs and reports a task; returns the tasks claimed with the report."""
        exchange = Exchange(task)
        try:
            return self._run_and_report(task, exchange)
        finally:
            exchange.remove()

    def _run_and_report(self, task: Task, exchange: Exchange) -> list[Task]:
        if self.settings.fetches_artifacts and not self._fetch(task, exchange):
            return []
        with self.lock:
            if self.leaving:  # `sign_off` returns the task
                return []
            self.end_reason, self.may_report = None, True
            try:
                self.execution = Execution(self.command, task, self.worker_id, self.terminal, exchange.variables)
            except OSError as error:
                result = build_start_failure(error)
        if self.execution:
            self.terminal.print_message(f"{task.id}: started, attempt {task.attempt}")
            result = self.execution.wait(task.timeout_sec)
        try:
            return self._report(task, result, exchange)
        finally:
            with self.lock:
                self.execution = None

    def _fetch(self, task: Task, exchange: Exchange) -> bool:
        """Saves the artifacts of the dependencies; reports a failure of the task if that is refused."""
        try:
            exchange.fetch(self.persistent)
        except (Refused, UnexpectedResponse, OSError) as error:
            message = f"the artifacts of its dependencies cannot be fetched: {error}"
            self.terminal.print_message(f"{task.id}: {message}")
            with suppress(Conflict):
                self.persistent.fail_task(task.id, attempt=task.attempt, error=message, tool_failed=None)
            return False
        return True

    def _report(self, task: Task, result: CommandResult, exchange: Exchange) -> list[Task]:
        """Reports the result, however long an outage lasts; returns the tasks claimed with the report.

        The server refuses the result if the worker has lost its lease.
        """
        with self.lock:
            reason, may_report, leaving = self.end_reason, self.may_report, self.leaving
        if not may_report:
            self.terminal.print_message(f"{task.id}: {reason}; the command was ended and nothing is reported")
            return []
        trigger, fields = self._hand_over(*result.build_report(task, reason), exchange)
        done = fields.get("error") or "done"
        try:
            if leaving:
                self.persistent.fire("tasks", task.id, trigger, **fields)
                found, refusal = [], None
            else:
                report = {"task": task.id, "trigger": trigger, **fields}
                response = self.persistent.report_and_claim(self.worker_id, [report])
                found, refusal = response.tasks, response.reports[0]["refusal"]
        except (Conflict, NotFound, PermissionDenied) as error:
            found, refusal = [], {"code": error.code, "detail": error.detail}
        if refusal and refusal["code"] == "invalid":  # such as a result that the server cannot store
            self._fail(task, refusal["detail"])
        if refusal:  # another worker holds the task
            done = f"the result is dropped: {refusal['code']}: {refusal['detail']}"
        self.terminal.print_message(f"{task.id}: {done}")
        return found

    def _hand_over(self, trigger: str, fields: dict[str, Any], exchange: Exchange) -> tuple[str, dict[str, Any]]:
        """Stores the artifacts and adds the result to the report of a success; a failure of either is reported."""
        if trigger != COMPLETED:
            return trigger, fields
        try:
            result = exchange.read_result()
            exchange.store(self.persistent)
        except UnusableResult as error:
            return FAILED, {**fields, "error": f"the file of STATECORE_RESULT {error}"}
        except (LeaseLost, Unreachable):
            return trigger, fields  # the report itself is refused, or repeated
        except (Refused, OSError) as error:
            return FAILED, {**fields, "error": f"an artifact cannot be stored: {error}"}
        return trigger, fields if result is None else {**fields, "result": result}

    def _fail(self, task: Task, error: str) -> None:
        with suppress(Refused):
            self.persistent.fail_task(task.id, attempt=task.attempt, error=error, tool_failed=None)
