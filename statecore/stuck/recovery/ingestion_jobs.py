"""Ingestion jobs: one that stalls is failed and tried again, one that failed too often is put aside."""

from __future__ import annotations

from ...machines.ingestion_job import IngestionJob, State
from .. import words
from .plan import Order, when_overdue


def fail_and_try_again(job: IngestionJob, order: Order) -> None:
    ran = words.length(order.at - job.state_entered_at)
    settle_the_failed(order.fire(job, "fail", error=f"stalled: nothing was heard of it for {ran}"), order)


def settle_the_failed(job: IngestionJob, order: Order) -> None:
    order.fire(job, "retry" if job.attempts < job.max_attempts else "quarantine")


RECOVERIES = (
    when_overdue("ingestion_job", {State.RUNNING}, "fail it and try it again", fail_and_try_again),
    when_overdue("ingestion_job", {State.FAILED}, "try it again, or put it aside", settle_the_failed),
)
