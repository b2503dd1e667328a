"""What there is to retire, and how a test retires it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings

from statecore.backup.tables import tables
from statecore.journal import Event
from statecore.kernel.clock import now
from statecore.records import Position, Retirement
from statecore.retiring import retire
from statecore.sinks.counters import Counters
from statecore.sinks.journal_file import JournalFile
from statecore.sinks.seals import Seals, seal
from tests.support import world
from tests.support.sequencer import catch_up

REASON = "older than anybody asks for"


@dataclass
class Past:
    ended: Any  # a task whose whole history is old
    run: Any  # its run
    live: Any  # a worker that went on afterwards
    forced: Any  # a run that an operator ended
    upto: int  # the last position that is old
    at: datetime  # a moment after that and before what came then

    @classmethod
    def made(cls) -> Past:
        live = world.fire(world.created("UetWorker", worker_type="test"), "initialization_completed")
        ended = world.running_task()
        world.fire(ended, "execution_completed", exit_code=0, attempt=ended.attempt)
        forced = world.forced(world.run(), "failed")
        numbered()
        upto = sealed(5)
        at = now()
        world.fire(live, "task_assigned")
        later()
        return cls(world.touched(ended), world.touched(ended.run), world.touched(live), forced, upto, at)

    def folder(self) -> Path:
        return Path(settings.STATECORE_RETIRED_DIR)


def later() -> None:
    """More, under a seal of its own, which stays."""
    world.task()
    numbered()
    sealed(1_000)


def numbered() -> None:
    catch_up(JournalFile(), Counters(), Seals())


def sealed(size: int) -> int:
    """Everything, in seals of this size; the last position under one."""
    last = 0
    while last < (Position.objects.order_by("-position").values_list("position", flat=True).first() or 0):
        last = seal(size).last_position
    return last


def retired(**options: Any) -> list[Retirement]:
    given = {"by": world.operator(), "reason": REASON, **options}
    return list(retire(now() + timedelta(days=1), Path(settings.STATECORE_RETIRED_DIR), **given))


def everything() -> dict[str, list[Any]]:
    """Every row of every table that a restore brings back."""
    found: dict[str, list[Any]] = {
        "positions": list(Position.objects.order_by("position").values_list("position", "event_id")),
        "events": sorted(Event.objects.values_list("event_id", "body", "hash", "timestamp")),
    }
    return found | {model.__name__: sorted(map(repr, model._base_manager.values_list())) for model in tables()}
