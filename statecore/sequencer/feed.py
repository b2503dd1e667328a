"""Feeds one sink: from its cursor to the head, batch by batch; a sink that fails waits and holds up no other."""

from __future__ import annotations

import time
from datetime import datetime

import structlog
from django.db import InterfaceError, OperationalError, transaction

from ..records import sink_cursor
from ..sinks.numbered import Batch, read
from ..sinks.sink import Sink

log = structlog.get_logger(__name__)

BATCH = 1_000
NO_DATABASE = (InterfaceError, OperationalError)
LONGEST_WAIT = 30.0


class Reader:
    """Most sinks stand at the same place: what was read for one is there for the next."""

    def __init__(self) -> None:
        self.key = (0, 0)
        self.batch: Batch = []

    def read(self, after: int, head: int) -> Batch:
        key = (after, min(BATCH, head - after))
        if key != self.key or not self.batch:
            self.batch, self.key = read(*key), key
        return self.batch


class Feed:
    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.place: int | None = None
        self.failures = 0
        self.not_before = 0.0

    def step(self, reader: Reader, head: int) -> bool:
        """Deliver one batch; whether there is more to deliver."""
        if time.monotonic() < self.not_before:
            return False
        try:
            if self.place is None:
                self.place = self.sink.recover(sink_cursor.place_of(self.sink.name))
            if self.place < head:
                self._deliver(reader.read(self.place, head))
        except NO_DATABASE:
            self.place = None
            raise  # that is everybody's trouble
        except Exception as error:  # noqa: BLE001 - whatever it is, the other sinks go on
            self._failed(error)
            return False
        self.failures = 0
        return self.place < head

    def _deliver(self, batch: Batch) -> None:
        with transaction.atomic():
            self.sink.deliver(batch)
            sink_cursor.move(self.sink.name, batch[-1].position)
        self.place = batch[-1].position

    def _failed(self, error: Exception) -> None:
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
            self._failed(error)

    def close(self) -> None:
        self.place = None
        self.sink.close()
