"""Why an entity does not move: what each machine knows of that, and what can be said of any machine.

A cause is either another entity that is waited for, or the rest of a sentence: then this entity is the root. What is
said of a machine that the reader may not see is left out here, for every screen and every call.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from ...kernel.entity import Entity
from .. import words
from ..sight import HIDDEN, Sight, sees
from . import breakers, gates, jobs, patches, runs, tasks, workers, workstreams
from .generic import generic
from .wait import Cause, Tale, Wait

__all__ = ["Wait", "cause_of", "what_became_of"]

CAUSES: dict[str, Callable[[Any, datetime], Cause]] = {
    "run": runs.cause,
    "workstream": workstreams.cause,
    "task": tasks.cause,
    "test_gate": gates.cause,
    "patch_ledger": patches.cause,
    "worker": workers.cause,
    "uet_worker": workers.cause,
    "circuit_breaker": breakers.cause,
    "ingestion_job": jobs.ingestion,
    "agent_job": jobs.agent,
    "supervised_job": jobs.supervised,
    "pipeline_job": jobs.pipeline,
}

# What is said of something final by whoever waits for it, where an operator has to decide how to go on.
DECISIONS: dict[str, Callable[[Any, datetime], str]] = {
    "workstream": lambda workstream, at: words.which(words.state(workstream)),
    "task": lambda task, at: words.which(words.ended(task, at)),
    "patch_ledger": lambda patch, at: words.which(words.ended(patch, at)),
}


def cause_of(entity: Entity, at: datetime, sight: Sight = None) -> Wait | str:
    """What a live entity waits for, told to who sees so much."""
    known = CAUSES.get(entity.flow.entity_type)
    # A machine that this package has not heard of, or a state its own function has nothing to say of.
    cause = (known(entity, at) if known else "") or generic(entity, at, sight)
    if isinstance(cause, Wait):
        return cause if sees(sight, cause.entity.flow.entity_type) else f"{cause.relation} {HIDDEN}"
    if isinstance(cause, Tale):
        return cause.text if sees(sight, cause.about) else words.standing(entity, at, f"it waits for {HIDDEN}")
    return cause


def what_became_of(entity: Entity, at: datetime) -> str:
    """What is said of something final that is still waited for."""
    decision = DECISIONS.get(entity.flow.entity_type)
    return f"{decision(entity, at)}: needs a decision" if decision else words.ended(entity, at)
