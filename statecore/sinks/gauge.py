"""How many alerts are open, for whoever watches from outside."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Count

from ..derive.standing import Standing
from ..records import Alert
from .alert_rules import COUNT_RULES, ENTRY_RULES


class OpenAlerts(Standing):
    name = "statecore_open_alerts"
    says = "Alerts that are raised and not over"
    labels = ("rule", "severity")

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """Of every rule, also where there is none: an alert that is over is one that was seen to be over."""
        found = dict(Alert.objects.filter(resolved_at=None).values_list("rule").annotate(count=Count("pk")))
        for rule in (*ENTRY_RULES, *COUNT_RULES):
            yield (rule.name, str(rule.severity)), found.get(rule.name, 0)
