"""Sends the output of a task to its log while it runs.

Neither the work nor the heartbeats wait for it: lines are kept in a bounded buffer, and a thread sends them. If the
buffer is full, because the server is away or the task writes too fast, the oldest lines are dropped and a line says how
many.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import Any

from ..clients import Client
from ..records import Task
from ..refusals import LogGap, StatecoreError, Throttled, Unreachable

PAUSE_SECONDS = 0.2  # between two calls, so that lines that come at once are sent together
RETRY_SECONDS = 1.0
LINES_PER_CALL = 500
CHARACTERS_PER_CALL = 200_000
MAX_CHARACTERS = 2_000_000  # kept while they cannot be sent
LINE_OVERHEAD = 100
MAX_LINE_BYTES = 16_384  # without a line break; the server keeps about half of it
FINAL_SECONDS = 3.0  # for the last lines of a task that writes too fast

STREAMS = ("stdout", "stderr")
Line = dict[str, Any]


class LineBuffer:
    """The lines that are not sent yet, oldest first. Not for use by several threads."""

    def __init__(self) -> None:
        self.lines: deque[Line] = deque()
        self.size = self.dropped = 0

    def add(self, line: Line) -> None:
        self.lines.append(line)
        self.size += len(line["text"]) + LINE_OVERHEAD
        while self.size > MAX_CHARACTERS:
            self.size -= len(self.lines.popleft()["text"]) + LINE_OVERHEAD
            self.dropped += 1

    def take(self) -> list[Line]:
        """Returns the lines of the next call, without what was dropped before them."""
        taken: list[Line] = []
        size = 0
        if self.dropped:
            text = f"{self.dropped:,} lines dropped by the agent: they could not be sent in time"
            taken, self.dropped = [make_line("stderr", text)], 0
        while self.lines and len(taken) < LINES_PER_CALL and size < CHARACTERS_PER_CALL:
            taken.append(self.lines.popleft())
            size += len(taken[-1]["text"]) + LINE_OVERHEAD
        self.size -= size
        return taken


def make_line(stream: str, text: str) -> Line:
    return {"stream": stream, "text": text, "at": datetime.now(UTC).isoformat(timespec="milliseconds")}


class LogSender:
    def __init__(self, client: Client, task: Task) -> None:
        self.client, self.task = client, task
        self.buffer = LineBuffer()
        self.partial: dict[str, bytes] = {}
        self.changed = threading.Condition()
        self.is_closing = self.is_refused = False
        self.closed_at = 0.0
        self.offset = 0
        self.thread = threading.Thread(target=self._run, name=f"log of {task.id}", daemon=True)
        self.thread.start()

    def add(self, stream: str, data: bytes) -> None:
        """Takes a piece of output; complete lines are sent. Never waits."""
        *complete, rest = (self.partial.get(stream, b"") + data).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            complete, rest = [*complete, rest], b""
        self.partial[stream] = rest
        self._add_lines(stream, complete)

    def _add_lines(self, stream: str, lines: list[bytes]) -> None:
        if not lines or self.is_refused:
            return
        with self.changed:
            for line in lines:
                self.buffer.add(make_line(stream, line.decode(errors="replace")))
            self.changed.notify()

    def close(self) -> None:
        """Sends what remains, and waits for it: after the report of the result the server takes no more lines.

        While the server is away it waits as long as the report would.
        """
        for stream, rest in self.partial.items():
            self._add_lines(stream, [rest] if rest else [])
        with self.changed:
            self.is_closing, self.closed_at = True, time.monotonic()
            self.changed.notify()
        self.thread.join()

    def discard(self) -> None:
        """Drops what was not sent, because the server does not take it or the agent ends."""
        with self.changed:
            self.is_refused = self.is_closing = True
            self.changed.notify()

    def _run(self) -> None:
        while lines := self._wait_for_lines():
            self._send(lines)
            if not self.is_closing:
                time.sleep(PAUSE_SECONDS)

    def _wait_for_lines(self) -> list[Line]:
        """Returns the lines to send; none if the log is complete or refused."""
        with self.changed:
            while not (self.buffer.lines or self.is_closing):
                self.changed.wait()
            return [] if self.is_refused else self.buffer.take()

    def _send(self, lines: list[Line]) -> None:
        """Sends the lines until the server has taken or refused them."""
        while not self.is_refused:
            try:
                self.client.append_log(self.task.id, lines, attempt=self.task.attempt, offset=self.offset)
            except LogGap as gap:
                self.offset = gap.offset  # the server was restored from a backup
            except Unreachable:
                time.sleep(RETRY_SECONDS)
            except Throttled as refusal:
                self._wait(refusal.retry_after or RETRY_SECONDS)
            except StatecoreError:  # the lease was lost, or the server does not take logs of this agent
                self.discard()
            else:
                self.offset += len(lines)
                return

    def _wait(self, seconds: float) -> None:
        """Waits before another attempt; gives up if the command has ended some time ago."""
        if self.is_closing and time.monotonic() + seconds > self.closed_at + FINAL_SECONDS:
            self.discard()
        else:
            time.sleep(seconds)
