"""The index every machine needs."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Index, Q


def live_by_state(table: str, final: Iterable[str]) -> Index:
    """For whoever looks for what has been in a state for too long: final rows are many and never wanted."""
    live = ~Q(state__in=sorted(map(str, final)))
    return Index(fields=("state", "state_entered_at"), condition=live, name=f"{table}_live_by_state")
