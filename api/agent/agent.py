"""The process: its slots, and how it leaves. The first TERM lets tasks finish, the second ends them."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

from api.client import Client, Patience, StatecoreError

from .command import resolved
from .settings import Settings
from .slot import Slot
from .terminal import Terminal

TICK = 0.1
# For what has to come through however long the server is away: a registration, a claim, a result.
ENDLESS = Patience(longest=5.0, total=None)
# For what is worth nothing later: a heartbeat, a good-bye.
BRIEF = Patience(first=0.1, longest=1.0, total=2.0)
LAST_WORDS = 6.0


class Agent:
    def __init__(self, settings: Settings) -> None:
        command = resolved(settings.command)
        self.terminal = Terminal()
        patient = Client(settings.url, settings.token, patience=ENDLESS)
        brisk = Client(settings.url, settings.token, patience=BRIEF, timeout=10.0)
        self.slots = [Slot(settings, command, patient, brisk, self.terminal) for _ in range(settings.concurrency)]
        self.signals: list[int] = []

    @property
    def failure(self) -> StatecoreError | None:
        return next((slot.failure for slot in self.slots if slot.failure), None)

    def run(self) -> int:
        """Works until it is asked to leave, or every slot was shut down; 0, or 128 + the signal that ended it."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        for slot in self.slots:
            slot.thread.start()
        answered = False
        while not all(slot.gone.is_set() for slot in self.slots):
            if self.signals and not answered:
                answered = True
                self._leave()
            if len(self.signals) > 1:
                return self._end(self.signals[1])
            time.sleep(TICK)
        return 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)

    def _leave(self) -> None:
        """Idle slots sign off while their claims still wait: what a claim brings now is handed on."""
        busy = 0
        for slot in self.slots:
            if slot.leave():
                busy += 1
            else:
                threading.Thread(target=slot.sign_off, daemon=True).start()
        tasks = "the running task" if busy == 1 else f"{busy} running tasks"
        self.terminal.say(f"finishing {tasks}, then leaving" if busy else "leaving")

    def _end(self, number: int) -> int:
        self.terminal.say("ending what runs")
        for slot in self.slots:
            slot.kill("the agent was ended", is_ours=True)
        until = time.monotonic() + LAST_WORDS
        for slot in self.slots:
            slot.gone.wait(max(0.0, until - time.monotonic()))
        return 128 + number
