"""The alerts, newest first, page by page."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models import Q

from ..records import Alert

USUAL, MOST = 100, 500


class AlertPage(NamedTuple):
    alerts: list[dict[str, Any]]
    more: bool


def alerts(
    *, before: int | None = None, limit: int = USUAL, is_open: bool | None = None, acknowledged: bool | None = None
) -> AlertPage:
    """Those with an id below `before`. Ids rise as alerts are raised; only the sequencer raises them."""
    wanted = Q() if before is None else Q(pk__lt=before)
    if is_open is not None:
        wanted &= Q(resolved_at__isnull=is_open)
    if acknowledged is not None:
        wanted &= Q(acknowledged_at__isnull=not acknowledged)
    found = list(Alert.objects.filter(wanted).order_by("-pk")[: limit + 1])
    return AlertPage([alert.as_dict() for alert in found[:limit]], len(found) > limit)
