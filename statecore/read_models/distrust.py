"""The entities that an open integrity alert names: their stored state cannot be trusted."""

from __future__ import annotations

from ..records import Alert
from ..records.alert import INTEGRITY


def is_any_data_unverified() -> bool:
    return Alert.objects.filter(rule=INTEGRITY, resolved_at=None).exists()


def find_unverified(entity_type: str) -> set[str]:
    """Returns the ids of the entities of a machine whose stored data did not verify."""
    alerts = Alert.objects.filter(rule=INTEGRITY, resolved_at=None, facts__entity_type=entity_type)
    return {pk for facts in alerts.values_list("facts", flat=True) for pk in facts["ids"]}
