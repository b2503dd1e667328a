"""The main loop of the sequencer: wait for leadership, number events, feed the sinks, stop on a signal."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from types import FrameType

import structlog
from django.db import Error, connection

from ...journal.signing import SigningFailed
from ...kernel.clock import now
from ...records.leader_lease import Leadership, LeadershipLost
from ...storage import database_clock
from ..sinks.sink import Sink
from .feed import Feed, feed_sinks
from .numbering import Numberer
from .takeover import start_epoch_if_needed
from .wakeup import GATHER_SECONDS, WakeupListener

log = structlog.get_logger(__name__)

SEQUENCER = "sequencer"  # the name of its lease
POLL_SECONDS = 0.2  # the longest delay that a lost wake-up can cause
STANDBY_SECONDS = 0.5
TICK_SECONDS = 5.0


class Sequencer:
    def __init__(self, sinks: Sequence[Sink], leadership: Leadership | None = None) -> None:
        self.leadership = leadership or Leadership(SEQUENCER)
        self.feeds = [Feed(sink, self.leadership) for sink in sinks]
        self.numberer = Numberer(self.leadership)
        self.stopping = threading.Event()
        self.is_behind = False
        self.next_tick = 0.0

    def stop(self, signal_number: int = 0, frame: FrameType | None = None) -> None:
        self.stopping.set()

    def stop_on_signals(self) -> None:
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signal_number, self.stop)

    def run(self) -> None:
        """Runs until stop(). After a database error the sequencer gives up leadership and tries again."""
        while not self.stopping.is_set():
            try:
                if self.leadership.acquire():
                    self._lead()
                    self.leadership.release()
                else:
                    self.stopping.wait(STANDBY_SECONDS)
            except LeadershipLost:
                log.warning("sequencer_replaced")
                self.stopping.wait(STANDBY_SECONDS)
            except Error as error:
                log.warning("sequencer_lost_database", error=str(error).strip().partition("\n")[0])
                self.leadership.release()
                self.stopping.wait(STANDBY_SECONDS)
            except (OSError, SigningFailed) as error:
                log.error("epoch_not_started", error=f"{type(error).__name__}: {error}")
                self.leadership.release()
                self.stopping.wait(STANDBY_SECONDS)

    def _lead(self) -> None:
        log.info("sequencer_leads", database=connection.vendor, term=self.leadership.term)
        wakeups = WakeupListener()
        try:
            self.leadership.limit_idle_transactions()
            self.take_over()
            is_woken = False
            while not self.stopping.is_set() and self.leadership.is_held:
                # A wake-up also announces the events that follow it soon (SPARED_SECONDS), so two rounds follow it.
                is_busy = self.run_round() or is_woken
                if is_busy and not self.is_behind:
                    self.stopping.wait(GATHER_SECONDS)
                is_woken = wakeups.wait(0 if is_busy else POLL_SECONDS)
        finally:
            wakeups.close()
            for feed in self.feeds:
                feed.close()

    def take_over(self) -> None:
        """Starts an epoch if positions were lost, before any is given again, and reads the last assigned position."""
        start_epoch_if_needed(self.leadership.fenced)
        self.numberer.load_mark()

    def run_round(self) -> bool:
        """Numbers new events and delivers a batch to each sink; returns whether there may be more to do.

        Raises LeadershipLost if this process hung for so long that another one leads.
        """
        if self.leadership.is_renewal_due():
            self.leadership.check()
        count = self.numberer.number_new_events()
        self.is_behind = feed_sinks(self.feeds, self.numberer.head)
        if time.monotonic() >= self.next_tick:
            self.next_tick = time.monotonic() + TICK_SECONDS
            database_clock.follow(connection)
            for feed in self.feeds:
                feed.tick(now())
        return count > 0 or self.is_behind
