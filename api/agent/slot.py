"""One worker of the agent: registered on its own, with one task at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress

from api.client import Beat, Client, Conflict, NotFound, PermissionDenied, StatecoreError, Task

from .command import Ended, Execution, cannot_start
from .heart import Heart
from .settings import Settings
from .terminal import Terminal

SHUTDOWN = "shutdown"
GIVEN_UP = "max_timeout_exceeded"  # how a worker ends that was silent for too long
PAUSE = 0.5


class Slot:
    def __init__(
        self, settings: Settings, command: list[str], patient: Client, brisk: Client, terminal: Terminal
    ) -> None:
        self.settings, self.command, self.patient, self.brisk = settings, command, patient, brisk
        self.terminal = terminal
        self.lock = threading.Lock()
        self.worker_id = settings.new_worker_id()
        self.leaving = self.signed_off = False
        self.gone = threading.Event()
        self.execution: Execution | None = None
        self.ended_for: str | None = None  # why the running command was ended from outside
        self.is_ours = True  # whether what it did is still worth a report
        self.heart: Heart | None = None
        self.failure: StatecoreError | None = None
        self.thread = threading.Thread(target=self._live, name="slot", daemon=True)

    # From outside

    def leave(self) -> bool:
        """Take no further task; whether it holds one, which it finishes first."""
        with self.lock:
            self.leaving = True
            return self.execution is not None

    def kill(self, why: str, *, is_ours: bool) -> None:
        """End the command; of a task that is no longer ours nothing is reported."""
        with self.lock:
            if self.execution and self.ended_for is None:
                self.ended_for, self.is_ours = why, is_ours
                self.execution.end()

    def sign_off(self) -> None:
        """Tell the server, once, that this worker is gone: whatever it still held is for others at once."""
        with self.lock:
            is_first, self.signed_off = not self.signed_off, True
        if not is_first:
            return
        if self.heart:
            self.heart.stop()
        try:
            self._hand_back()
        except StatecoreError as error:
            if self.failure is None:
                self.terminal.say(f"{self.worker_id}: could not sign off: {error}")
        self.gone.set()

    def _hand_back(self) -> None:
        """A worker that is shut down claims nothing more: what it holds now came by a claim it has not heard."""
        with suppress(Conflict, NotFound):  # it has ended already, or was never registered
            self.brisk.fire("workers", self.worker_id, "shutdown_requested", reason="the agent left")
        for task in self.brisk.held(self.worker_id):
            self.brisk.fail(task.id, attempt=task.attempt, error="the agent left before it began")

    # Its life

    def _live(self) -> None:
        try:
            self._register()
            to_do: deque[Task] = deque()
            while not self.leaving:
                if not to_do:
                    to_do.extend(self._claimed())
                if to_do:
                    to_do.extend(self._work(to_do.popleft()))
        except StatecoreError as error:
            self.failure = error
            self.terminal.say(f"{self.worker_id}: {error}")
        finally:
            self.sign_off()

    def _register(self) -> None:
        settings = self.settings
        try:
            self.patient.register(settings.capabilities, worker_id=self.worker_id, affinity=settings.affinity)
        except Conflict as refusal:
            if refusal.code != "duplicate_id":  # else it is ours: the answer to an earlier try was lost
                raise
        able = f" for {', '.join(settings.capabilities)}" if settings.capabilities else ""
        self.terminal.say(f"{self.worker_id}: registered{able}")
        self.heart = Heart(
            self.brisk, self.worker_id, settings.heartbeat_seconds, self._holds, self._heard, self.terminal
        )

    def _claimed(self) -> list[Task]:
        asked = time.monotonic()
        try:
            found = self.patient.claim(self.worker_id, most=1, wait=self.settings.wait_seconds)
        except Conflict:
            return self._look_up()
        if not found and not self.leaving:  # a server that does not wait is not asked without end
            time.sleep(max(0.0, PAUSE - (time.monotonic() - asked)))
        return found

    def _look_up(self) -> list[Task]:
        """The claim was refused: the worker holds a task whose claim was not heard, or its time is over."""
        beat = self.patient.heartbeat(self.worker_id)
        if beat.state == SHUTDOWN:
            self._end_or_begin_anew()
            return []
        if beat.shuts_down:
            self.leaving = True
        held = list(self.patient.held(self.worker_id))
        if not held and not self.leaving:
            time.sleep(PAUSE)  # it is about to be idle again, or unresponsive until its heartbeat counts
        return held

    def _end_or_begin_anew(self) -> None:
        if self.heart:
            self.heart.stop()
        if self.leaving or not self._was_given_up():
            self.terminal.say(f"{self.worker_id}: was shut down, leaving")
            self.leaving = True
            return
        self.terminal.say(f"{self.worker_id}: was given up after a long silence, registering again")
        self.worker_id = self.settings.new_worker_id()
        self._register()

    def _was_given_up(self) -> bool:
        *_, last = self.brisk.history("workers", self.worker_id)
        return last.trigger == GIVEN_UP

    def _holds(self) -> list[Task]:
        execution = self.execution
        return [execution.task] if execution else []

    def _heard(self, beat: Beat) -> None:
        """What the server wants."""
        execution = self.execution
        if execution and beat.cancels(execution.task):
            self.kill("it was cancelled", is_ours=False)
        if beat.shuts_down and not self.leaving and not (beat.state == SHUTDOWN and self._was_given_up()):
            is_busy = self.leave()
            self.terminal.say(f"{self.worker_id}: asked to shut down{', after this task' if is_busy else ''}")
            if not is_busy:
                self.sign_off()

    # A task

    def _work(self, task: Task) -> list[Task]:
        """Do a task and report it; those that came with the answer."""
        with self.lock:
            if self.leaving:  # signing off hands it on
                return []
            self.ended_for, self.is_ours = None, True
            try:
                self.execution = Execution(self.command, task, self.worker_id, self.terminal)
            except OSError as error:
                ended = cannot_start(error)
        if self.execution:
            self.terminal.say(f"{task.id}: started, attempt {task.attempt}")
            ended = self.execution.wait(task.timeout_sec)
        try:
            return self._conclude(task, ended)
        finally:
            with self.lock:
                self.execution = None

    def _conclude(self, task: Task, ended: Ended) -> list[Task]:
        """Kept and tried until the server hears it; it may say that the task is no longer ours."""
        with self.lock:
            why, is_ours, leaving = self.ended_for, self.is_ours, self.leaving
        if not is_ours:
            self.terminal.say(f"{task.id}: {why}; the command was ended and nothing is reported")
            return []
        trigger, fields = ended.report(task, why)
        done = fields.get("error") or "done"
        try:
            if leaving:
                self.patient.fire("tasks", task.id, trigger, **fields)
                found, refusal = [], None
            else:
                made = self.patient.report_and_claim(self.worker_id, [{"task": task.id, "trigger": trigger, **fields}])
                found, refusal = made.tasks, made.reports[0]["refusal"]
        except (Conflict, NotFound, PermissionDenied) as error:
            found, refusal = [], {"code": error.code, "detail": error.detail}
        if refusal:  # it is somebody else's by now
            done = f"the result is dropped: {refusal['code']}: {refusal['detail']}"
        self.terminal.say(f"{task.id}: {done}")
        return found
