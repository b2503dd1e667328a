"""The entities that an open integrity alert names: their stored state cannot be trusted."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q

from ..kernel.transition import Severity
from ..records import Alert
from ..records.alert import INTEGRITY


def is_any_data_unverified() -> bool:
    return Alert.objects.filter(rule=INTEGRITY, resolved_at=None).exists()


def list_alarms(rules: Iterable[str]) -> list[Alert]:
    """Returns the open alerts that every page shows: data that does not verify, and of these rules the critical."""
    about_system = Q(rule__in=rules, severity=Severity.CRITICAL.value)
    return list(Alert.objects.filter(Q(rule=INTEGRITY) | about_system, resolved_at=None).order_by("opened_at"))


def find_unverified(entity_type: str) -> set[str]:
    """Returns the ids of the entities of a machine whose stored data did not verify."""
    alerts = Alert.objects.filter(rule=INTEGRITY, resolved_at=None, facts__entity_type=entity_type)
    return {pk for facts in alerts.values_list("facts", flat=True) for pk in facts["ids"]}
