"""Deletes rows that are of no more use and that no other sweep deletes.

What they recorded is in the journal: logins and lockouts in the account journal, and each change of a bulk job as an
event. Audit notes are not among them, because they are evidence that entries of the journal cover.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.apps import apps
from django.db.models import Q, QuerySet

from ..kernel.clock import now
from ..records import Alert, AlertNotice, BulkJob, one_time_password
from ..records.incident import RETENTION as ALERTS

LOCKOUTS = timedelta(days=1)  # much longer than a lockout
LOGINS, NOTICES, BULK_JOBS = timedelta(days=90), timedelta(days=30), timedelta(days=30)
BATCH = 1_000  # of each kind in one sweep, so that none takes long; the next one continues

log = structlog.get_logger(__name__)


def delete_expired() -> dict[str, int]:
    """Return how many rows were deleted by table; bounded and repeatable."""
    one_time_password.expire()
    counts = {rows.model._meta.db_table: _delete(rows) for rows in _list_expired(now())}
    found = {table: count for table, count in counts.items() if count}
    if found:
        log.info("rows_expired", **found)
    return found


def _list_expired(at: datetime) -> Iterator[QuerySet[Any]]:
    # A silence covers later alerts of the same rule and key.
    silenced = Q(silenced_until__gt=at)
    yield Alert.objects.filter(resolved_at__lt=at - ALERTS).exclude(silenced)
    yield AlertNotice.objects.filter(done_at__lt=at - NOTICES)
    yield BulkJob.objects.filter(finished_at__lt=at - BULK_JOBS)
    # A project with another login need not have these.
    if apps.is_installed("django.contrib.sessions"):
        yield apps.get_model("sessions.Session")._default_manager.filter(expire_date__lt=at)
    if apps.is_installed("axes"):
        yield apps.get_model("axes.AccessAttempt")._default_manager.filter(attempt_time__lt=at - LOCKOUTS)
        yield apps.get_model("axes.AccessLog")._default_manager.filter(attempt_time__lt=at - LOGINS)


def _delete(rows: QuerySet[Any]) -> int:
    """Return the number of rows of the table itself, without those that belong to them."""
    batch = list(rows.order_by().values_list("pk", flat=True)[:BATCH])
    rows.model._default_manager.filter(pk__in=batch).delete()
    return len(batch)
