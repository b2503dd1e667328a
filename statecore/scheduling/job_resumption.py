"""Resuming a pipeline job by an agent: in place after a crash, as a successor after a failure."""

from __future__ import annotations

from typing import Any, cast

from django.conf import settings

from .. import transitions
from ..kernel.actors import THE_SYSTEM, Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.refusals import GuardFailed, InvalidTransition, Unmet
from ..machines.pipeline_job import WORKING, PipelineJob, State
from ..records import checkpoint
from ..transitions import rights
from ..transitions.outcome import counting_refusals
from ..transitions.unit_of_work import UnitOfWork, run_in_transaction


def resume(job_id: str, *, actor: Actor, within: UnitOfWork | None = None) -> PipelineJob:
    """Return the job that continues from the checkpoints: the same one, or the successor of a failed one.

    In a working stage, the caller becomes the holder if it is not already; the job must be released by recovery or be
    the caller's own. A failed job is resumed by its holder, a limited number of times. Raises NotFound, NotTheHolder,
    GuardFailed and InvalidTransition.
    """

    def step(work: UnitOfWork) -> Entity:
        job = work.lock(PipelineJob, job_id)
        if job.state in WORKING:
            rights.require_holder(actor, job)
            return _take(work, job, actor)
        if job.state == State.FAILED:
            rights.require_own(actor, job)
            return _succeed(work, job, actor)
        detail = f"{job} is {job.state}: only a job in a working stage or a failed one is resumed"
        raise InvalidTransition(detail, **job.current_facts())

    with counting_refusals(PipelineJob.flow.entity_type):
        rights.require(actor, PipelineJob.flow, "operate")
        return cast("PipelineJob", run_in_transaction(step, within=within))


def _take(work: UnitOfWork, job: Any, actor: Actor) -> Entity:
    """Make the caller the holder. `resumed_at` is cleared, because it makes the job free for every agent."""
    holder = actor.identity if actor.holds else job.holder
    changed = {"holder": holder, "resumed_at": None, "last_heartbeat": now()}
    transitions.amend(work, job, changed, actor=actor, reason="resumed in place from its checkpoints")
    return work.latest(job)


def _succeed(work: UnitOfWork, job: Any, actor: Actor) -> Entity:
    """The system retries, which an agent may not; the limit is that of the retries which agents set."""
    tries = len(checkpoint.list_lineage(job.pk)) - 1
    if actor.holds and tries >= settings.STATECORE_AGENT_RETRIES:
        unmet = [Unmet("retries_exhausted", f"it was resumed {tries} times, which is the most for an agent")]
        raise GuardFailed("resume", unmet, **job.current_facts())
    reason = f"resumed by {actor.name} from its checkpoints"
    outcome = transitions.retry(PipelineJob, job.pk, actor=THE_SYSTEM, reason=reason, within=work)
    successor: Any = outcome.entity
    return work.latest(successor)
