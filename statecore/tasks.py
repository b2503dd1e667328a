"""The Celery side: each task calls one function that could as well be called by hand."""

import structlog
from celery import shared_task
from django.conf import settings

from statecore import backup, integrity, journal
from statecore.sinks import counters, notices

log = structlog.get_logger(__name__)


@shared_task
def expire_idempotency_records() -> None:
    log.info("idempotency_records_expired", count=journal.expire_idempotency_records())


@shared_task
def check_recent_integrity() -> None:
    for finding in integrity.check_recent():
        log.error("integrity_finding", finding=str(finding))


@shared_task
def send_alert_notices() -> None:
    notices.send_due()


@shared_task
def reconcile_counters() -> None:
    counters.reconcile()


@shared_task(time_limit=3_000)  # the first one writes everything there is
def export_journal() -> None:
    log.info("journal_exported", folder=str(backup.export(settings.STATECORE_BACKUP_DIR)))
