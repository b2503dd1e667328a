"""Pages of alerts, newest first."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models import Q

from ...records import Alert

DEFAULT_LIMIT = 100


class AlertPage(NamedTuple):
    alerts: list[dict[str, Any]]
    more: bool


def list_alerts(
    *,
    before: int | None = None,
    limit: int = DEFAULT_LIMIT,
    is_open: bool | None = None,
    acknowledged: bool | None = None,
) -> AlertPage:
    """Returns the newest alerts with an id below `before`. Ids follow the order in which the sequencer opens alerts."""
    condition = Q() if before is None else Q(pk__lt=before)
    if is_open is not None:
        condition &= Q(resolved_at__isnull=is_open)
    if acknowledged is not None:
        condition &= Q(acknowledged_at__isnull=not acknowledged)
    found = list(Alert.objects.filter(condition).order_by("-pk")[: limit + 1])
    return AlertPage([alert.as_dict() for alert in found[:limit]], len(found) > limit)
