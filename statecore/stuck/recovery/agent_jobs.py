"""Agent jobs: a lease that ran out is taken back, a long wait is parked. What waits is never given to another."""

from __future__ import annotations

from datetime import datetime

from ...kernel.indexes import is_live
from ...machines.agent_job import AgentJob, State
from .plan import Order, Recovery, when_overdue


def queue_again(job: AgentJob, order: Order) -> None:
    order.fire(job, "job_requeued")


def park(job: AgentJob, order: Order) -> None:
    order.fire(job, "job_parked")


def the_next_try_is_due(job: AgentJob, at: datetime) -> bool:
    return job.retry_at is not None and job.retry_at <= at


def due_for_the_next_try(recovery: Recovery, at: datetime, limit: int) -> list[str]:
    retrying = AgentJob.objects.filter(is_live(AgentJob.flow.final), state=State.RETRYING, retry_at__lte=at)
    return list(retrying.order_by("retry_at").values_list("pk", flat=True)[:limit])


RECOVERIES = (
    when_overdue("agent_job", {State.RUNNING}, "take the lease back and queue it again", queue_again),
    when_overdue("agent_job", {State.WAITING}, "park it until its signal comes", park),
    Recovery(
        "agent_job",
        frozenset({str(State.RETRYING)}),
        "queue it again: its next try is due",
        queue_again,
        due_for_the_next_try,
        the_next_try_is_due,
        asks_nobody=True,
    ),
)
