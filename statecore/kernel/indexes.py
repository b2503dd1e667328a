"""The index every machine needs."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Index, Q


def live_by_state(table: str, final: Iterable[str]) -> Index:
    """For whoever looks for what has been in a state for too long: final rows are many and never wanted."""
    return Index(fields=("state", "state_entered_at"), condition=_live(final), name=f"{table}_live_by_state")


def awaited_by_state(table: str, final: Iterable[str]) -> Index:
    """The same without what nobody waits for any more: that stays in its state for ever, and would pile up."""
    awaited = _live(final) & Q(abandoned=False)
    return Index(fields=("state", "state_entered_at"), condition=awaited, name=f"{table}_awaited_by_state")


def failed_by_parent(table: str, parent: str) -> Index:
    """For whoever asks of a live parent whether a child has failed: most children have not."""
    return Index(fields=(parent,), condition=Q(state="failed"), name=f"{table}_failed_by_{parent}")


def _live(final: Iterable[str]) -> Q:
    return ~Q(state__in=sorted(map(str, final)))
