"""The slots of one program and its shutdown: after a first request to stop, tasks may finish; then they are ended."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from .. import tracing
from ..clients import Client
from ..refusals import StatecoreError
from ..retries import RetryPolicy
from .execution import Start
from .heartbeats import Report
from .settings import Settings
from .slot import Slot

POLL_SECONDS = 0.1
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# For calls that must succeed in the end, however long an outage lasts: registration, claim, result.
RETRY_FOREVER = RetryPolicy(longest=5.0, total=None)
# For calls that are useless if they arrive late: heartbeat, sign-off.
RETRY_BRIEFLY = RetryPolicy(first=0.1, longest=1.0, total=2.0)
FINAL_REPORT_SECONDS = 6.0


class Crew:
    def __init__(self, settings: Settings, start: Start, report: Report) -> None:
        self.report = report
        self.persistent = Client(settings.url, settings.token, retry_policy=RETRY_FOREVER)
        self.brief = Client(settings.url, settings.token, retry_policy=RETRY_BRIEFLY, timeout=10.0)
        self.tracing = tracing.start()
        self.slots = [
            Slot(settings, start, self.persistent, self.brief, report, self.tracing)
            for _ in range(settings.concurrency)
        ]
        self.closing = threading.Thread(target=self._close, name="closing", daemon=True)
        # The numbers of the signals received; 0 for `stop`.
        self.stop_requests: list[int] = []

    @property
    def failure(self) -> StatecoreError | None:
        return next((slot.failure for slot in self.slots if slot.failure), None)

    def stop(self) -> None:
        """Lets the tasks in progress finish, then leaves; a second call ends them. Any thread may call it."""
        self.stop_requests.append(0)

    def run(self, drain_seconds: float | None = None) -> int:
        """Works until all slots have left, after a signal, `stop` or a shutdown by the server.

        Tasks may finish within `drain_seconds` (None: without limit), and are handed back after that. Returns 0, or 128
        + the number of a second signal.
        """
        for slot in self.slots:
            slot.thread.start()
        try:
            with self._receive_signals():
                return self._supervise(drain_seconds)
        finally:
            self.closing.start()

    def _close(self) -> None:
        """Closes the connections once no thread uses them: a slot that has left may still wait for its last claim."""
        for slot in self.slots:
            slot.thread.join()
            if slot.heartbeats:
                slot.heartbeats.thread.join()
        self.persistent.close()
        self.brief.close()

    def _supervise(self, drain_seconds: float | None) -> int:
        leaves_until: float | None = None
        is_leaving = False
        while not all(slot.has_left.is_set() for slot in self.slots):
            if self.stop_requests and not is_leaving:
                is_leaving = True
                leaves_until = None if drain_seconds is None else time.monotonic() + drain_seconds
                self._finish_and_leave()
            if len(self.stop_requests) > 1:
                self._abort()
                return 128 + self.stop_requests[1] if self.stop_requests[1] else 0
            if leaves_until is not None and time.monotonic() > leaves_until:
                self._abort()
                return 0
            time.sleep(POLL_SECONDS)
        return 0

    @contextmanager
    def _receive_signals(self) -> Iterator[None]:
        """Only the main thread can set signal handlers; elsewhere, the program calls `stop`."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stop_requests.append(number)

    def _finish_and_leave(self) -> None:
        """Lets busy slots finish their task and signs off the others.

        Each signs off in a thread, because its own thread may still be waiting for a claim.
        """
        busy = 0
        for slot in self.slots:
            if slot.leave():
                busy += 1
            else:
                threading.Thread(target=slot.sign_off, daemon=True).start()
        tasks = "the running task" if busy == 1 else f"{busy} running tasks"
        self.report(f"finishing {tasks}, then leaving" if busy else "leaving")

    def _abort(self) -> None:
        self.report("ending the running tasks")
        for slot in self.slots:
            slot.kill("the agent was terminated", may_report=True)
        until = time.monotonic() + FINAL_REPORT_SECONDS
        for slot in self.slots:
            slot.has_left.wait(max(0.0, until - time.monotonic()))
