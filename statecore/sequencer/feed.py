"""Feeds the sinks: from each one's cursor to the head, batch by batch; one that fails holds up no other."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime

import structlog
from django.db import InterfaceError, OperationalError, connection, transaction

from ..records import sink_cursor
from ..records.retirement import horizon
from ..sinks.numbered import Batch, MissingEvent, read
from ..sinks.sink import Sink

log = structlog.get_logger(__name__)

BATCH = 1_000
NO_DATABASE = (InterfaceError, OperationalError)
LONGEST_WAIT = 30.0


class Feed:
    """One sink, and where it stands; None when it has to recover first."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.place: int | None = None
        self.failures = 0
        self.not_before = 0.0

    def is_ready(self) -> bool:
        if time.monotonic() < self.not_before:
            return False
        if self.place is None:
            try:
                self.place = self._recovered(sink_cursor.place_of(self.sink.name))
            except NO_DATABASE:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the other sinks go on
                self.failed(error)
        return self.place is not None

    def _recovered(self, cursor: int) -> int:
        """What was retired is not here to be read: a new sink, or a file written anew, begins after it."""
        place = max(self.sink.recover(cursor), horizon())
        if place != cursor:
            # Told at once: where nothing new happens, a file that is ahead would be taken for a sink that is behind.
            sink_cursor.move([self.sink.name], place)
        return place

    def failed(self, error: Exception) -> None:
        self.place = None
        self.failures += 1
        wait = min(LONGEST_WAIT, 0.1 * 2**self.failures)
        self.not_before = time.monotonic() + wait
        log.error("sink_failed", sink=self.sink.name, error=f"{type(error).__name__}: {error}", again_in=wait)

    def tick(self, at: datetime) -> None:
        try:
            self.sink.tick(at)
        except NO_DATABASE:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self.failed(error)

    def close(self) -> None:
        self.place = None
        self.sink.close()


def feed_all(feeds: Iterable[Feed], head: int) -> bool:
    """One batch for each that is behind; whether one still is. Those at the same place are fed together."""
    ready = [feed for feed in feeds if feed.is_ready()]
    for place in sorted({feed.place for feed in ready if feed.place is not None and feed.place < head}):
        together = [feed for feed in ready if feed.place == place]
        try:
            batch = read(place, min(BATCH, head - place))
        except MissingEvent as error:
            for feed in together:
                feed.failed(error)
        else:
            _feed(together, batch)
    return any(feed.place is not None and feed.place < head for feed in ready)


def _feed(feeds: list[Feed], batch: Batch) -> None:
    """In one transaction, for a commit costs more than most sinks do; one by one as soon as one of them fails."""
    try:
        _deliver(feeds, batch)
    except Exception as error:
        if len(feeds) == 1 and not isinstance(error, NO_DATABASE):
            feeds[0].failed(error)
            return
        for feed in feeds:
            feed.place = None
        if isinstance(error, NO_DATABASE):
            raise
        for feed in feeds:
            # It may have kept the batch before another failed, as a file does.
            if feed.is_ready() and (rest := [event for event in batch if event.position > (feed.place or 0)]):
                _feed([feed], rest)


def _deliver(feeds: list[Feed], batch: Batch) -> None:
    last = batch[-1].position
    with transaction.atomic():
        if connection.vendor == "postgresql":
            # What a power cut takes back is delivered again: the cursors go back with it.
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit = off")
        for feed in feeds:
            feed.sink.deliver(batch)
        sink_cursor.move([feed.sink.name for feed in feeds], last)
    for feed in feeds:
        feed.place, feed.failures = last, 0
