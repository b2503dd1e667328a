"""How webhooks are doing: how far each subscription is behind, and which ones are disabled; for alerts and metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Q, QuerySet

from ..journal.archive import get_last_archived_position
from ..journal.position import Position, head
from ..kernel.clock import now
from ..records import Webhook, WebhookBacklog
from ..records.webhook import Status
from .database_gauge import DatabaseGauge


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
    enabled = list(Webhook.objects.filter(run_id="", disabled_at=None))
    waiting = read_oldest_waiting(enabled)
    for webhook in enabled:
        yield webhook, waiting.get(webhook.pk)


def read_oldest_waiting(webhooks: Collection[Webhook]) -> dict[str, datetime]:
    """Return the time of the oldest event that each subscription has not delivered; those up to date are left out.

    Events that the filter leaves out count until the process that sends has passed them.
    """
    if not webhooks:
        return {}
    last, archived = head(), get_last_archived_position()
    first = {each.pk: max(each.position, archived) + 1 for each in webhooks if each.position < last}
    backlog = WebhookBacklog.objects.filter(webhook__in=[each.pk for each in webhooks])
    first.update(backlog.order_by().values_list("webhook_id").annotate(first=Min("position")))
    rows = Position.objects.filter(position__in=set(first.values())).values_list("position", "event__timestamp")
    times = dict(rows)
    return {pk: times[position] for pk, position in first.items() if position in times}


def list_failed() -> QuerySet[Any]:
    """Return the webhooks that were disabled because their receivers failed, oldest first."""
    return Webhook.objects.filter(finished_at=None, disabled_by="").exclude(disabled_at=None).order_by("disabled_at")
