"""Feeds each sink from its cursor to the head of the journal, batch by batch. A failing sink does not delay others."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime

import structlog
from django.db import InterfaceError, OperationalError, connection

from ...journal.archive import get_last_archived_position
from ...records import sink_cursor
from ...records.leader_lease import Leadership, LeadershipLost
from ..sinks.sink import Batch, MissingEvent, Sink, read_batch

log = structlog.get_logger(__name__)

BATCH_SIZE = 1_000
# These concern all sinks: without the database or the leadership none continues.
FATAL = (InterfaceError, OperationalError, LeadershipLost)
MAX_RETRY_SECONDS = 30.0


class Feed:
    """A sink and the position it has reached; None means that the sink has to recover first."""

    def __init__(self, sink: Sink, leadership: Leadership) -> None:
        self.sink, self.leadership = sink, leadership
        sink.leadership = leadership
        self.position: int | None = None
        self.failures = 0
        self.not_before = 0.0

    def is_ready(self) -> bool:
        """Recovers the sink if necessary; returns False while a failed sink waits for its next attempt."""
        if time.monotonic() < self.not_before:
            return False
        if self.position is None:
            try:
                with self.leadership.fenced():
                    position = self._recover(sink_cursor.get_position(self.sink.name))
                self.position = position
            except FATAL:
                raise
            except Exception as error:  # noqa: BLE001 - the other sinks continue, whatever the error
                self.record_failure(error)
        return self.position is not None

    def _recover(self, cursor: int) -> int:
        """Returns the position to continue after.

        A new sink, or a file that is rewritten, starts after the archived events, because they cannot be read.
        """
        position = max(self.sink.recover(cursor), get_last_archived_position())
        if position != cursor:
            # Stored now, because a file that is ahead of its cursor would be reported as behind until the next event.
            sink_cursor.set_position([self.sink.name], position)
        return position

    def record_failure(self, error: Exception) -> None:
        self.position = None
        self.failures += 1
        wait = min(MAX_RETRY_SECONDS, 0.1 * 2**self.failures)
        self.not_before = time.monotonic() + wait
        log.error("sink_failed", sink=self.sink.name, error=f"{type(error).__name__}: {error}", retry_in=wait)

    def tick(self, at: datetime) -> None:
        self.leadership.check()
        try:
            self.sink.tick(at)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self.record_failure(error)

    def close(self) -> None:
        self.position = None
        self.sink.close()


def feed_sinks(feeds: Iterable[Feed], head: int) -> bool:
    """Delivers one batch to each sink that is behind; sinks at the same position share it.

    Returns whether a sink is still behind.
    """
    ready = [feed for feed in feeds if feed.is_ready()]
    for position in sorted({feed.position for feed in ready if feed.position is not None and feed.position < head}):
        group = [feed for feed in ready if feed.position == position]
        try:
            batch = read_batch(position, min(BATCH_SIZE, head - position))
        except MissingEvent as error:
            for feed in group:
                feed.record_failure(error)
        else:
            _deliver_or_isolate(group, batch)
    return any(feed.position is not None and feed.position < head for feed in ready)


def _deliver_or_isolate(feeds: list[Feed], batch: Batch) -> None:
    """Delivers a batch to all sinks in one transaction, because a commit costs more than most sinks.

    If a sink fails, the batch is delivered to each sink separately, so that the others receive it.
    """
    try:
        _deliver(feeds, batch)
    except Exception as error:
        if len(feeds) == 1 and not isinstance(error, FATAL):
            feeds[0].record_failure(error)
            return
        for feed in feeds:
            feed.position = None
        if isinstance(error, FATAL):
            raise
        for feed in feeds:
            if not feed.is_ready():
                continue
            # A sink outside the database, such as the file, may have kept the batch before another sink failed. One
            # that buffers may continue before the batch: the next round reads what is missing.
            position = feed.position or 0
            if batch[0].position <= position + 1 and (rest := [each for each in batch if each.position > position]):
                _deliver_or_isolate([feed], rest)


def _deliver(feeds: list[Feed], batch: Batch) -> None:
    last = batch[-1].position
    with feeds[0].leadership.fenced():
        if connection.vendor == "postgresql":
            # A power cut may undo this commit. It undoes the cursors too, so the batch is delivered again.
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit = off")
        for feed in feeds:
            feed.sink.deliver(batch)
        sink_cursor.set_position([feed.sink.name for feed in feeds], last)
    for feed in feeds:
        feed.position, feed.failures = last, 0
