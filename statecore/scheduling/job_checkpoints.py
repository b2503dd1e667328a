"""Checkpoints of pipeline jobs, which only the agent that holds the job may store and clear."""

from __future__ import annotations

from typing import Any

from ..kernel.actors import Actor
from ..kernel.ids import is_valid_id
from ..machines.pipeline_job import PipelineJob
from ..records import checkpoint
from ..records.checkpoint import Checkpoint
from ..transitions import rights
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction


def store(job_id: str, phase: str, payload: object, *, actor: Actor) -> Checkpoint:
    """Store the progress of a phase. Raises NotTheHolder, and what `records.checkpoint.store` raises."""

    def step(work: UnitOfWork) -> Checkpoint:
        _lock_held(work, job_id, actor)
        return checkpoint.store(job_id, phase, payload)

    return run_in_transaction(step)


def clear(job_id: str, phase: str, *, actor: Actor) -> None:
    def step(work: UnitOfWork) -> None:
        _lock_held(work, job_id, actor)
        if is_valid_id(phase):
            checkpoint.clear(job_id, phase)

    run_in_transaction(step)


def _lock_held(work: UnitOfWork, job_id: str, actor: Actor) -> None:
    job: Any = work.lock(PipelineJob, job_id)
    rights.require_holder(actor, job)
