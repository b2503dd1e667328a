"""A database that lost its last events, as a promoted replica that lagged behind has."""

from __future__ import annotations

from statecore.journal import SignedCheckpoint
from statecore.journal.position import current_epoch
from statecore.records import SinkCursor
from tests.integrity.rewriting import rewrite


def lose_events_after(position: int) -> None:
    """Brings the database back to a position; the events after it must create entities that nothing refers to."""
    rewrite(lambda history: history.__delitem__(slice(position, None)), epoch=current_epoch())
    SinkCursor.objects.filter(position__gt=position).update(position=position)
    SignedCheckpoint.objects.filter(size__gt=position).delete()
