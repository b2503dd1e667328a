"""A slot: one registered worker with its heartbeats and one task at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress

from ..clients import Client
from ..records import HeartbeatReply, Task
from ..refusals import Conflict, Invalid, NotFound, PermissionDenied, StatecoreError, Unreachable
from ..tracing import Tracing
from .execution import FAILED, Execution, Result, Start
from .heartbeats import Heartbeats, Report
from .settings import Settings

SHUTDOWN = "shutdown"
TIMED_OUT = "max_timeout_exceeded"  # the trigger that ends an unresponsive worker; an idle one is shut down
PAUSE = 0.5


class Slot:
    """`persistent` retries its calls without end; `brief` gives up after seconds."""

    def __init__(
        self, settings: Settings, start: Start, persistent: Client, brief: Client, report: Report, tracing: Tracing
    ) -> None:
        self.settings, self.start, self.persistent, self.brief = settings, start, persistent, brief
        self.report, self.tracing = report, tracing
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
                self.report(f"{self.worker_id}: could not sign off: {error}")
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
                with self.tracing.trace_task() as trace:
                    if not to_do:
                        to_do.extend(self._claim())
                    if to_do:
                        trace.describe(to_do[0])
                        to_do.extend(self._work(to_do.popleft()))
        except StatecoreError as error:
            self.failure = error
            self.report(f"{self.worker_id}: {error}")
        finally:
            self.sign_off()

    def _register(self) -> None:
        settings = self.settings
        try:
            try:
                self._register_with(self.brief)
            except Unreachable as error:
                self.report(f"{self.worker_id}: {error}; trying until the server responds")
                self._register_with(self.persistent)
        except Conflict as refusal:
            if refusal.code != "duplicate_id":  # a duplicate id is ours: the answer to an earlier attempt was lost
                raise
        able = f" for {', '.join(settings.capabilities)}" if settings.capabilities else ""
        self.report(f"{self.worker_id}: registered{able}")
        self.heartbeats = Heartbeats(
            self.worker_id, self._send_heartbeat, self._compute_interval, self._obey, self.report
        )

    def _register_with(self, client: Client) -> None:
        settings = self.settings
        client.register_worker(settings.capabilities, worker_id=self.worker_id, affinity=settings.affinity)

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
            self.report(f"{self.worker_id}: was shut down, leaving")
            self.leaving = True
            return
        self.report(f"{self.worker_id}: was shut down after missed heartbeats, registering again")
        self.worker_id = self.settings.new_worker_id()
        self._register()

    def _timed_out_on_server(self) -> bool:
        *_, last = self.brief.list_history("workers", self.worker_id)
        was_silent = last.actor == "system" and last.metadata.get("heartbeat_status") == "missed"
        return last.trigger == TIMED_OUT or was_silent

    def _send_heartbeat(self) -> HeartbeatReply:
        execution = self.execution
        tasks = [execution.task] if execution else []
        known = ((task.id, execution.read_progress()) for task in tasks) if execution else ()
        progress = {task_id: progress for task_id, progress in known if progress}
        return self.brief.send_heartbeat(self.worker_id, holds=tasks, progress=progress)

    def _compute_interval(self) -> float:
        """Returns the seconds between heartbeats: less than configured if the task requires them more often."""
        execution, seconds = self.execution, self.settings.heartbeat_seconds
        return min(seconds, execution.task.heartbeat_sec / 3) if execution else seconds

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
            self.report(f"{self.worker_id}: the server requests a shutdown{when}")
            if not is_busy:
                self.sign_off()

    # One task

    def _work(self, task: Task) -> list[Task]:
        """Works on a task and reports the result; returns the tasks claimed with the report."""
        if self.leaving:  # `sign_off` returns the task
            return []
        execution = self.start(task, self.worker_id)
        try:
            with self.lock:
                if self.leaving:
                    execution.end()
                    return []
                self.end_reason, self.may_report = None, True
                self.execution = execution
            self.report(f"{task.id}: started, attempt {task.attempt}")
            return self._report(execution, execution.wait(task.timeout_sec))
        finally:
            with self.lock:
                self.execution = None
            execution.close()

    def _report(self, execution: Execution, result: Result) -> list[Task]:
        """Reports the result, however long an outage lasts; returns the tasks claimed with the report.

        The server refuses the result if the worker has lost its lease.
        """
        task = execution.task
        with self.lock:
            reason, may_report, leaving = self.end_reason, self.may_report, self.leaving
        if not may_report:
            self.report(f"{task.id}: {reason}; the work was ended and nothing is reported")
            return []
        trigger, fields = execution.hand_over(*result.build_report(task, reason))
        done = fields.get("error") or "done"
        try:
            if leaving or self.tracing.is_on:  # the claim of the next task begins another trace
                self.persistent.fire("tasks", task.id, trigger, **fields)
                found, refusal = [], None
            else:
                report = {"task": task.id, "trigger": trigger, **fields}
                response = self.persistent.report_and_claim(self.worker_id, [report])
                found, refusal = response.tasks, response.reports[0]["refusal"]
        except (Conflict, Invalid, NotFound, PermissionDenied) as error:
            found, refusal = [], {"code": error.code, "detail": error.detail}
        if refusal and trigger != FAILED and refusal["code"] == "invalid":  # such as a result that is too large
            self._fail(task, f"the server refuses the result: {refusal['detail']}")
        if refusal:  # another worker holds the task
            done = f"the result is dropped: {refusal['code']}: {refusal['detail']}"
        self.report(f"{task.id}: {done}")
        return found

    def _fail(self, task: Task, error: str) -> None:
        with suppress(Conflict, Invalid, NotFound, PermissionDenied):
            self.persistent.fail_task(task.id, attempt=task.attempt, error=error, tool_failed=None, retry=False)
