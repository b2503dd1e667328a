"""Pipeline jobs: a crashed one stays in its stage and is given back, for somebody to resume from its checkpoint."""

from __future__ import annotations

from ...machines.pipeline_job import WORKING, PipelineJob
from .plan import Order, when_overdue


def give_back(job: PipelineJob, order: Order) -> None:
    """Its state does not change: the clock of its stage starts anew, and its checkpoints stay."""
    PipelineJob.objects.filter(pk=job.pk).update(resumed_at=order.at)


RECOVERIES = (when_overdue("pipeline_job", WORKING, "resume it in place from its checkpoint", give_back),)
