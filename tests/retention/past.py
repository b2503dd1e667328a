"""A journal with old events, and helpers that archive them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings

from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.journal_file import JournalFile
from statecore.delivery.sinks.tree import Tree
from statecore.journal import ArchivedRange, SignedCheckpoint
from statecore.journal.position import head
from statecore.kernel.clock import now
from statecore.operations.retention import archive_events
from tests.support import world
from tests.support.sequencer import catch_up, sign

OLD = timedelta(hours=1)
REASON = "older than the retention period"


@dataclass
class Past:
    ended: Any  # a task with only old events
    run: Any  # its run
    live: Any  # a worker with old and newer events
    forced: Any  # a run ended by an operator
    upto: int  # the last old position
    at: datetime  # a time between the old and the newer events

    @classmethod
    def create(cls) -> Past:
        live = world.fire(world.created("UetWorker", worker_type="test"), "initialization_completed")
        ended = world.running_task()
        world.fire(ended, "execution_completed", exit_code=0, attempt=ended.attempt)
        forced = world.forced(world.run(), "failed")
        deliver()
        upto, at = head(), now()
        world.fire(live, "task_assigned")
        append_newer_events()
        return cls(world.touched(ended), world.touched(ended.run), world.touched(live), forced, upto, at)

    def folder(self) -> Path:
        return Path(settings.STATECORE_ARCHIVE_DIR)


def append_newer_events() -> None:
    """Append newer events after everything before them has become old enough to be archived."""
    long_ago = now() - 2 * OLD
    SignedCheckpoint.objects.filter(signed_at__gt=long_ago).update(signed_at=long_ago)
    world.task()
    deliver()


def deliver() -> None:
    catch_up(JournalFile(), Counters(), Tree())
    sign()


def archive_old_events(**options: Any) -> list[ArchivedRange]:
    given = {"by": world.operator(), "reason": REASON, **options}
    return list(archive_events(now() - OLD, Path(settings.STATECORE_ARCHIVE_DIR), **given))
