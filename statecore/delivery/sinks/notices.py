"""Sends stored notifications of alerts and requests for approval through apprise, in another process."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db.models import F

from ... import notifications
from ...kernel.clock import format_utc, now
from ...kernel.transition import Severity
from ...notifications import NotificationFailed, Urgency
from ...records import Alert, AlertNotice
from ...records import alert as alert_records
from ...records.alert import fingerprint

log = structlog.get_logger(__name__)

BATCH_SIZE = 20
MAX_ATTEMPTS = 12
FIRST_RETRY, MAX_RETRY = timedelta(seconds=10), timedelta(minutes=30)
# How long a notice is reserved for the process that sends it: longer than a Celery task may run. With less, another
# process would send a notice again whose receiver is slow.
RESERVED = timedelta(seconds=settings.CELERY_TASK_TIME_LIMIT + 60)
URGENCIES = {Severity.CRITICAL: Urgency.FAILURE, Severity.ERROR: Urgency.FAILURE, Severity.WARNING: Urgency.WARNING}


def store_opened(alert: Alert, at: datetime) -> None:
    urgency = URGENCIES.get(Severity(alert.severity), Urgency.INFO)
    _store(alert, f"{alert.severity.upper()}: {alert.detail}", at, urgency)


def store_resolved(alert: Alert, at: datetime) -> None:
    _store(alert, f"resolved: {alert.detail}", at, Urgency.SUCCESS)


def _store(alert: Alert, subject: str, at: datetime, urgency: Urgency) -> None:
    if alert.is_silenced(at):
        return
    runbook = f"{settings.STATECORE_PUBLIC_URL}/runbook/#{alert.rule}"
    text = f"{subject}\nrule: {alert.rule}\nsince: {format_utc(alert.opened_at)}\nrunbook: {runbook}"
    alert_records.store_notices(subject, text, at, alert, urgency)


def has_due(late_by: timedelta) -> bool:
    return AlertNotice.objects.filter(done_at=None, next_try_at__lte=now() - late_by).exists()


def send_due(late_by: timedelta = timedelta()) -> int:
    """Sends the notices that are due, or late by some time, and returns how many were sent.

    Safe to run concurrently: each attempt is reserved in the database first.
    """
    urls = (*settings.STATECORE_NOTIFY_URLS, *settings.STATECORE_ESCALATION_URLS)
    receivers = {fingerprint(url): url for url in urls}
    due = AlertNotice.objects.filter(done_at=None, next_try_at__lte=now() - late_by).order_by("next_try_at", "pk")
    return sum(_attempt(notice, receivers.get(notice.receiver)) for notice in due[:BATCH_SIZE])


def _attempt(notice: AlertNotice, url: str | None) -> bool:
    unchanged = AlertNotice.objects.filter(pk=notice.pk, attempts=notice.attempts, done_at=None)
    if not unchanged.update(attempts=F("attempts") + 1, next_try_at=now() + RESERVED):
        return False
    is_sent = url is not None and _send(url, notice)
    is_last = url is None or notice.attempts + 1 >= MAX_ATTEMPTS
    wait = min(MAX_RETRY, FIRST_RETRY * 2**notice.attempts)
    done_at = now() if is_sent or is_last else None
    AlertNotice.objects.filter(pk=notice.pk).update(done_at=done_at, next_try_at=now() + wait)
    if not is_sent:
        # The URL is never logged, because any part of it may be a secret.
        log.warning("notice_not_sent", receiver=notice.receiver, subject=notice.subject, given_up=is_last)
    return is_sent


def _send(url: str, notice: AlertNotice) -> bool:
    try:
        notifications.send([url], notice.subject, notice.text, Urgency(notice.urgency))
    except NotificationFailed:
        return False
    return True
