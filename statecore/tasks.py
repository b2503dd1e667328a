"""The Celery side: each task calls one function that could as well be called by hand."""

import structlog
from celery import shared_task

from statecore import integrity, journal, stuck
from statecore.scheduling import breakers

log = structlog.get_logger(__name__)


@shared_task
def expire_idempotency_records() -> None:
    log.info("idempotency_records_expired", count=journal.expire_idempotency_records())


@shared_task
def check_recent_integrity() -> None:
    for finding in integrity.check_recent():
        log.error("integrity_finding", finding=str(finding))


@shared_task
def cool_down_breakers() -> None:
    if count := breakers.cool_down():
        log.info("breakers_half_opened", count=count)


@shared_task
def recover_stalled() -> None:
    stuck.recover_stalled()
