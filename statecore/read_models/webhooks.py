"""How webhooks are doing: how far each subscription is behind, and which ones are disabled; for alerts and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models import Count, Min, Q, QuerySet

from ..journal.archive import get_last_archived_position
from ..journal.commit_order import EVENTS, POSITIONS
from ..journal.position import head
from ..kernel.clock import now
from ..records import Webhook
from ..records.webhook import Status
from .database_gauge import DatabaseGauge

_TIMESTAMP_AT = f"SELECT e.timestamp FROM {POSITIONS} AS p JOIN {EVENTS} AS e USING (event_id) WHERE p.position = %s"  # noqa: S608 - names of tables only


class WebhookLag(DatabaseGauge):
    name = "statecore_webhook_lag_seconds"
    documentation = "Age of the oldest event that an enabled webhook has not delivered"
    labels = ("webhook",)

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        at = now()
        for webhook, since in list_waiting():
            yield (webhook.pk,), max(0.0, (at - since).total_seconds()) if since else 0.0


class WebhookCounts(DatabaseGauge):
    name = "statecore_webhooks"
    documentation = "Webhooks by status; those of ended runs are not counted"
    labels = ("status",)

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        is_open = Q(finished_at=None)
        counts = Webhook.objects.filter(is_open).aggregate(
            enabled=Count("pk", filter=Q(disabled_at=None, failing_since=None)),
            failing=Count("pk", filter=Q(disabled_at=None) & ~Q(failing_since=None)),
            disabled=Count("pk", filter=~Q(disabled_at=None)),
        )
        for status in (Status.ENABLED, Status.FAILING, Status.DISABLED):
            yield (str(status),), counts[str(status)]


def list_waiting() -> Iterator[tuple[Webhook, datetime | None]]:
    """Yield each enabled subscription with the time of its oldest event that is not delivered, if there is one."""
    for webhook in Webhook.objects.filter(run_id="", disabled_at=None):
        yield webhook, read_oldest_waiting(webhook)


def read_oldest_waiting(webhook: Webhook) -> datetime | None:
    """Return the time of the oldest event that a subscription has not delivered; None if it is up to date.

    Events that its filter leaves out count until the process that sends has passed them.
    """
    first = webhook.backlog.aggregate(first=Min("position"))["first"]
    if first is None and webhook.position < head():
        first = max(webhook.position, get_last_archived_position()) + 1
    return _read_timestamp(first) if first is not None else None


def list_failed() -> QuerySet[Any]:
    """Return the webhooks that were disabled because their receivers failed, oldest first."""
    return Webhook.objects.filter(finished_at=None, disabled_by="").exclude(disabled_at=None).order_by("disabled_at")


def _read_timestamp(position: int) -> datetime | None:
    with connection.cursor() as cursor:
        cursor.execute(_TIMESTAMP_AT, [position])
        found = cursor.fetchone()
    moment: datetime | None = found[0] if found else None
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
