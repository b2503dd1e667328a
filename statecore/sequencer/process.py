"""The sequencer's life: stand by, lead, number, feed the sinks, leave when asked."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from types import FrameType

import structlog
from django.db import Error, connection

from ..kernel.clock import now
from ..sinks.sink import Sink
from .bell import Bell
from .feed import Feed, feed_all
from .leadership import Leadership
from .numbering import Numberer

log = structlog.get_logger(__name__)

POLL = 0.2  # what a bell that was not heard costs at most
GATHER = 0.01  # while events keep coming, several make a round
STANDBY = 0.5
TICK = 5.0


class Sequencer:
    def __init__(self, sinks: Sequence[Sink]) -> None:
        self.feeds = [Feed(sink) for sink in sinks]
        self.numberer = Numberer()
        self.leadership = Leadership()
        self.stopping = threading.Event()
        self.next_tick = 0.0

    def stop(self, signal_number: int = 0, frame: FrameType | None = None) -> None:
        self.stopping.set()

    def obey_signals(self) -> None:
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signal_number, self.stop)

    def run(self) -> None:
        """Until stop(). What goes wrong with the database costs the leadership, nothing else."""
        while not self.stopping.is_set():
            try:
                if self.leadership.take():
                    self._lead()
                    self.leadership.give_up()
                else:
                    self.stopping.wait(STANDBY)
            except Error as error:
                log.warning("sequencer_lost_the_database", error=str(error).strip().partition("\n")[0])
                self.leadership.give_up()
                self.stopping.wait(STANDBY)

    def _lead(self) -> None:
        log.info("sequencer_leads", database=connection.vendor)
        bell = Bell()
        try:
            self.numberer.begin()
            while not self.stopping.is_set() and self.leadership.is_held:
                busy = self.round()
                bell.wait(GATHER if busy else POLL)
        finally:
            bell.close()
            for feed in self.feeds:
                feed.close()

    def round(self) -> bool:
        """Number what is new and give each sink a batch; whether anything was done or is left to do."""
        count = self.numberer.number()
        is_behind = feed_all(self.feeds, self.numberer.head)
        if time.monotonic() >= self.next_tick:
            self.next_tick = time.monotonic() + TICK
            for feed in self.feeds:
                feed.tick(now())
        return count > 0 or is_behind
