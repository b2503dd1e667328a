"""The safety net: whoever could move and was overlooked, because a process died between a commit and a second look."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ..door.perform import perform
from ..door.work import current
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.indexes import is_live
from ..kernel.strides import next_by_entry
from ..machines.run import Run
from ..machines.task import Task
from ..machines.test_gate import TestGate
from ..machines.workstream import Workstream
from . import gates, runs, tasks, workers, workstreams
from .consequences import Reconsider

BATCH = 200  # of each live state
# What has only just come to where it is, is being looked at by whoever brought it there.
FRESH = timedelta(seconds=30)
RULES: tuple[tuple[type[Entity], Reconsider], ...] = (
    (Task, tasks.reconsider),
    (Workstream, workstreams.reconsider),
    (TestGate, gates.reconsider),
    (Run, runs.reconsider),
)
LOOK_UP = "SELECT set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true)"
# Where this process stopped last time, so that many who wait for good do not hide the others.
_places: dict[tuple[type[Entity], str], Any] = {}


def look_around() -> int:
    """One batch of each live state; how many were looked at. What may move moves, the others stay where they are."""
    looked = sum(
        _look_at_some(model, state, reconsider)
        for model, reconsider in RULES
        for state in model.flow.states
        if not model.flow.is_final(state)
    )
    return looked + workers.recount()


def _look_at_some(model: type[Entity], state: str, reconsider: Reconsider) -> int:
    waiting = model.objects.filter(is_live(model.flow.final), state=state, state_entered_at__lt=now() - FRESH)
    ids = next_by_entry(waiting, _places, (model, state), BATCH)
    if ids:
        perform(lambda: _reconsider(reconsider, ids))
    return len(ids)


def _reconsider(reconsider: Reconsider, ids: list[str]) -> None:
    """Whether a part is there is looked up. Where most rows belong to few wholes, the planner would rather come across
    one, and reads millions of finished rows if those of this whole are the last."""
    work = current()
    if work.connection.vendor == "postgresql":
        work.cursor.execute(LOOK_UP)
    reconsider(dict.fromkeys(ids))
