"""Wake-ups of the sequencer: one for events in quick succession, and no event waits for the next poll."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from statecore.delivery.sequencer import Sequencer, wakeup
from statecore.journal import Event
from statecore.journal.position import head
from tests.support import world
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sequencer(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sequencer]:
    """A running sequencer that wakes up for nothing but wake-ups."""
    monkeypatch.setattr(sys.modules[Sequencer.__module__], "POLL_SECONDS", 60.0)
    running = Sequencer(())
    thread = threading.Thread(target=_run, args=(running,))
    thread.start()
    until((home / wakeup.NAME).exists)
    yield running
    running.stop()
    wakeup._last_sent = 0.0
    wakeup.wake_sequencer()
    thread.join(30)


def _run(sequencer: Sequencer) -> None:
    try:
        sequencer.run()
    finally:
        connection.close()


def all_is_numbered() -> bool:
    return head() == Event.objects.count()


def test_events_in_quick_succession_are_numbered_without_a_poll(sequencer: Sequencer) -> None:
    workers = [world.fire(world.created("UetWorker", worker_type="test"), "initialization_completed") for _ in range(3)]
    for number in range(10):
        for worker in workers:
            world.fire(worker, "task_completed" if number % 2 else "task_assigned")
        until(all_is_numbered, 20)


def test_a_process_sends_one_wake_up_for_commits_in_quick_succession(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = wakeup.WakeupListener()
    monkeypatch.setattr(wakeup, "SPARED_SECONDS", 60.0)
    monkeypatch.setattr(wakeup, "_last_sent", time.monotonic() - 61)

    wakeup.wake_sequencer()
    assert listener.wait(0)
    wakeup.wake_sequencer()
    assert not listener.wait(0)

    monkeypatch.setattr(wakeup, "SPARED_SECONDS", 0.0)
    wakeup.wake_sequencer()
    assert listener.wait(0)
    listener.close()
