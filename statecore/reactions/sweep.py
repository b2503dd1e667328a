"""The safety net: re-evaluates entities that a process left behind when it died between a commit and its re-check."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ..kernel.clock import now
from ..kernel.constraints import is_live
from ..kernel.entity import Entity
from ..machines.run import Run
from ..machines.task import Task
from ..machines.test_gate import TestGate
from ..machines.workstream import Workstream
from ..storage.keyset_scan import next_by_entry
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction
from . import gates, runs, tasks, workers, workstreams
from .evaluation import Reevaluate

BATCH = 200  # of each live state
# An entity that has just changed is being evaluated by the transaction that changed it.
FRESH = timedelta(seconds=30)
RULES: tuple[tuple[type[Entity], Reevaluate], ...] = (
    (Task, tasks.reevaluate),
    (Workstream, workstreams.reevaluate),
    (TestGate, gates.reevaluate),
    (Run, runs.reevaluate),
)
USE_INDEXES = (
    "SELECT set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true)"
)
# Where this process stopped last time, so that many entities that wait do not hide the others.
_places: dict[tuple[type[Entity], str], Any] = {}


def reevaluate_waiting() -> int:
    """Re-evaluate a batch of each state that is not final; return how many entities were re-evaluated."""
    evaluated = sum(
        _reevaluate_batch(model, state, reevaluate)
        for model, reevaluate in RULES
        for state in model.flow.states
        if not model.flow.is_final(state)
    )
    return evaluated + workers.recount()


def _reevaluate_batch(model: type[Entity], state: str, reevaluate: Reevaluate) -> int:
    def step(work: UnitOfWork) -> None:
        # Without this, where most rows belong to few parents, the planner would scan millions of finished rows for one.
        if work.connection.vendor == "postgresql":
            work.query(USE_INDEXES)
        reevaluate(work, dict.fromkeys(ids))

    waiting = model.objects.filter(is_live(model.flow.final), state=state, state_entered_at__lt=now() - FRESH)
    ids = next_by_entry(waiting, _places, (model, state), BATCH)
    if ids:
        run_in_transaction(step)
    return len(ids)
