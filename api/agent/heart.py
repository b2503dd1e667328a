"""Heartbeats, in a thread of their own: whatever a command does, the server knows that the worker lives."""

from __future__ import annotations

import threading
from collections.abc import Callable

from api.client import Beat, Client, NotAuthenticated, NotFound, PermissionDenied, StatecoreError, Task

from .terminal import Terminal

Heard = Callable[[Beat], None]
Holds = Callable[[], list[Task]]


class Heart:
    """Beats until it is stopped. `holds` says what the worker is at, `heard` gets each answer."""

    def __init__(
        self, client: Client, worker_id: str, seconds: float, holds: Holds, heard: Heard, terminal: Terminal
    ) -> None:
        self.client, self.worker_id, self.seconds, self.holds, self.heard = client, worker_id, seconds, holds, heard
        self.terminal = terminal
        self.stopped = threading.Event()
        self.is_away = False
        self.thread = threading.Thread(target=self._beat, name=f"heart of {worker_id}", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.stopped.set()

    def _beat(self) -> None:
        while not self.stopped.wait(self.seconds):
            try:
                self.heard(self.client.heartbeat(self.worker_id, holds=self.holds()))
            except (NotAuthenticated, PermissionDenied, NotFound) as refusal:
                # The slot hears the same at its next call and decides; there is nothing to beat for.
                self.terminal.say(f"{self.worker_id}: {refusal}")
                return
            except StatecoreError as error:
                self._away(error)
                continue
            self._back()

    def _away(self, error: StatecoreError) -> None:
        if not self.is_away and not self.stopped.is_set():
            self.terminal.say(f"{self.worker_id}: no heartbeat got through, trying on ({error})")
        self.is_away = True

    def _back(self) -> None:
        if self.is_away:
            self.terminal.say(f"{self.worker_id}: the server is back")
        self.is_away = False
