"""The Celery side: each task calls one function that could as well be called by hand."""

import structlog
from celery import shared_task

from statecore import integrity, journal, stuck
from statecore.reactions import sweep
from statecore.scheduling import breakers, timers

log = structlog.get_logger(__name__)


@shared_task
def expire_idempotency_records() -> None:
    log.info("idempotency_records_expired", count=journal.expire_idempotency_records())


@shared_task
def check_recent_integrity() -> None:
    for finding in integrity.check_recent():
        log.error("integrity_finding", finding=str(finding))


@shared_task
def sweep_tasks() -> None:
    """Time-outs and back-offs."""
    timers.time_out_tasks()
    timers.queue_retries()


@shared_task
def sweep_workers() -> None:
    """Missed heartbeats, and workers that did not come back."""
    timers.miss_heartbeats()
    timers.give_up_workers()


@shared_task
def look_around() -> None:
    """Whoever could move and was overlooked."""
    sweep.look_around()


@shared_task
def cool_down_breakers() -> None:
    if count := breakers.cool_down():
        log.info("breakers_half_opened", count=count)


@shared_task
def recover_stalled() -> None:
    stuck.recover_stalled()
