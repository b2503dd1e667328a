"""Sends what the alerts have to say through apprise: written with the alert, sent later and apart from it."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db.models import F

from ..kernel import notify
from ..kernel.clock import now, told
from ..kernel.notify import NotNotified
from ..records import Alert, AlertNotice

log = structlog.get_logger(__name__)

BATCH = 20
MOST_ATTEMPTS = 12
FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=10), timedelta(minutes=30)


def fingerprint(url: str) -> str:
    """Names a receiver without its secrets."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def write(alert: Alert, subject: str, at: datetime) -> None:
    """One for each receiver: one that is away does not make the others hear it twice."""
    text = f"{subject}\nrule: {alert.rule}\nsince: {told(alert.opened_at)}"
    for url in settings.STATECORE_NOTIFY_URLS:
        AlertNotice.objects.create(
            alert=alert, receiver=fingerprint(url), subject=subject[:200], text=text, next_try_at=at
        )


def send_due() -> int:
    """Send what is due; how many went out. Safe to run twice at once: each attempt is taken before it is made."""
    receivers = {fingerprint(url): url for url in settings.STATECORE_NOTIFY_URLS}
    due = AlertNotice.objects.filter(done_at=None, next_try_at__lte=now()).order_by("next_try_at", "pk")
    return sum(_try(notice, receivers.get(notice.receiver)) for notice in due[:BATCH])


def _try(notice: AlertNotice, url: str | None) -> bool:
    wait = min(LONGEST_WAIT, FIRST_WAIT * 2**notice.attempts)
    mine = AlertNotice.objects.filter(pk=notice.pk, attempts=notice.attempts, done_at=None)
    if not mine.update(attempts=F("attempts") + 1, next_try_at=now() + wait):
        return False
    sent = url is not None and _send(url, notice)
    gone = url is None or notice.attempts + 1 >= MOST_ATTEMPTS
    if sent or gone:
        AlertNotice.objects.filter(pk=notice.pk).update(done_at=now())
    if not sent:
        # Never the address: it may be a secret as a whole.
        log.warning("notice_not_sent", receiver=notice.receiver, subject=notice.subject, given_up=gone)
    return sent


def _send(url: str, notice: AlertNotice) -> bool:
    try:
        notify.send([url], notice.subject, notice.text)
    except NotNotified:
        return False
    return True
