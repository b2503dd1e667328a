"""The heartbeats of a worker, sent by a thread: work that blocks an event loop keeps its lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ..records import HeartbeatReply
from ..refusals import NotAuthenticated, NotFound, PermissionDenied, StatecoreError

PAUSE = 0.5

Send = Callable[[], HeartbeatReply]
OnReply = Callable[[HeartbeatReply], None]
Report = Callable[[str], None]


class Heartbeats:
    """Calls `send` every few seconds, and passes each reply to `on_reply`."""

    def __init__(
        self, worker_id: str, send: Send, compute_interval: Callable[[], float], on_reply: OnReply, report: Report
    ) -> None:
        self.worker_id, self.send, self.compute_interval = worker_id, send, compute_interval
        self.on_reply, self.report = on_reply, report
        self.stopped = threading.Event()
        self.is_offline = False
        self.thread = threading.Thread(target=self._run, name=f"heartbeats of {worker_id}", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.stopped.set()

    def _run(self) -> None:
        last = time.monotonic()
        while not self.stopped.wait(min(PAUSE, self.compute_interval())):
            if time.monotonic() < last + self.compute_interval():
                continue
            last = time.monotonic()
            try:
                self.on_reply(self.send())
            except (NotAuthenticated, PermissionDenied, NotFound) as refusal:
                # The next claim or report of the slot gets the same refusal, which ends the slot.
                self.report(f"{self.worker_id}: {refusal}")
                return
            except StatecoreError as error:
                self._report_outage(error)
                continue
            self._report_recovery()

    def _report_outage(self, error: StatecoreError) -> None:
        if not self.is_offline and not self.stopped.is_set():
            self.report(f"{self.worker_id}: heartbeats fail, retrying ({error})")
        self.is_offline = True

    def _report_recovery(self) -> None:
        if self.is_offline:
            self.report(f"{self.worker_id}: the server responds again")
        self.is_offline = False
