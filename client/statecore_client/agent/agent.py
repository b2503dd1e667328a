"""The agent process: its slots and its shutdown. After a first signal tasks may finish; a second one ends them."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

from .. import Client, RetryPolicy, StatecoreError
from .command import resolve_program
from .settings import Settings
from .slot import Slot
from .terminal import Terminal

POLL_SECONDS = 0.1
# For calls that must succeed in the end, however long an outage lasts: registration, claim, result.
RETRY_FOREVER = RetryPolicy(longest=5.0, total=None)
# For calls that are useless if they arrive late: heartbeat, sign-off.
RETRY_BRIEFLY = RetryPolicy(first=0.1, longest=1.0, total=2.0)
FINAL_REPORT_SECONDS = 6.0


class Agent:
    def __init__(self, settings: Settings) -> None:
        command = resolve_program(settings.command)
        self.terminal = Terminal()
        persistent = Client(settings.url, settings.token, retry_policy=RETRY_FOREVER)
        brief = Client(settings.url, settings.token, retry_policy=RETRY_BRIEFLY, timeout=10.0)
        self.slots = [Slot(settings, command, persistent, brief, self.terminal) for _ in range(settings.concurrency)]
        self.signals: list[int] = []

    @property
    def failure(self) -> StatecoreError | None:
        return next((slot.failure for slot in self.slots if slot.failure), None)

    def run(self) -> int:
        """Works until all slots have left, after a signal or a shutdown by the server.

        Returns 0, or 128 + the number of a second signal.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        for slot in self.slots:
            slot.thread.start()
        is_leaving = False
        while not all(slot.has_left.is_set() for slot in self.slots):
            if self.signals and not is_leaving:
                is_leaving = True
                self._finish_and_leave()
            if len(self.signals) > 1:
                return self._abort(self.signals[1])
            time.sleep(POLL_SECONDS)
        return 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)

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
        self.terminal.print_message(f"finishing {tasks}, then leaving" if busy else "leaving")

    def _abort(self, number: int) -> int:
        self.terminal.print_message("ending the running tasks")
        for slot in self.slots:
            slot.kill("the agent was terminated", may_report=True)
        until = time.monotonic() + FINAL_REPORT_SECONDS
        for slot in self.slots:
            slot.has_left.wait(max(0.0, until - time.monotonic()))
        return 128 + number
