"""The safety net: whoever could move and was overlooked, because a process died between a commit and a second look."""

from __future__ import annotations

from datetime import timedelta

from ..door.perform import perform
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..machines.run import Run
from ..machines.task import Task
from ..machines.test_gate import TestGate
from ..machines.workstream import Workstream
from . import gates, runs, tasks, workers, workstreams
from .consequences import Reconsider

BATCH = 500
# What has only just come to where it is, is being looked at by whoever brought it there.
FRESH = timedelta(seconds=30)
RULES: tuple[tuple[type[Entity], Reconsider], ...] = (
    (Task, tasks.reconsider),
    (Workstream, workstreams.reconsider),
    (TestGate, gates.reconsider),
    (Run, runs.reconsider),
)
# Where this process stopped last time, so that many who wait for good do not hide the others.
_places: dict[type[Entity], str] = {}


def look_around() -> int:
    """One batch of each machine; how many were looked at. What may move moves, the others stay where they are."""
    return sum(_look_at_some(*rule) for rule in RULES) + workers.recount()


def _look_at_some(model: type[Entity], reconsider: Reconsider) -> int:
    live = [state for state in model.flow.states if not model.flow.is_final(state)]
    waiting = model.objects.filter(state__in=live, state_entered_at__lt=now() - FRESH, pk__gt=_places.get(model, ""))
    ids = list(waiting.order_by("pk").values_list("pk", flat=True)[:BATCH])
    _places[model] = ids[-1] if len(ids) == BATCH else ""
    if ids:
        perform(lambda: reconsider(dict.fromkeys(ids)))
    return len(ids)
