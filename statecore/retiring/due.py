"""What may be retired: whole seals from the oldest on, old enough, and read by every sink."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import takewhile
from typing import NamedTuple

from django.db.models import Min

from ..records import Seal, SinkCursor
from ..records.retirement import horizon

STRIDE = 10_000  # events in one file and one transaction: on SQLite everybody waits for that long


class Due(NamedTuple):
    first: int
    last: int
    # Who has read least: nothing goes that it has not had.
    slowest: str

    @property
    def events(self) -> int:
        return self.last - self.first + 1


def due(older_than: datetime) -> Due:
    """All that could be retired now; no event at all where it ends before it begins."""
    first = horizon() + 1
    last = first - 1
    for seal in _seals(older_than):
        last = seal.last_position
    slowest = SinkCursor.objects.order_by("position").first()
    return Due(first, last, str(slowest) if slowest else "no sink")


def next_stride(older_than: datetime, most: int = STRIDE) -> list[Seal]:
    """As many seals as fit, and one at least."""
    chosen: list[Seal] = []
    for seal in _seals(older_than):
        if chosen and seal.last_position - chosen[0].first_position >= most:
            break
        chosen.append(seal)
    return chosen


def _seals(older_than: datetime) -> Iterator[Seal]:
    """Never the newest: the sequencer, exports and new chains of seals go on from what is under it."""
    newest = Seal.objects.order_by("-last_position").first()
    if newest is None:
        return iter(())
    read_by_all = SinkCursor.objects.aggregate(least=Min("position"))["least"]
    upto = newest.last_position - 1 if read_by_all is None else min(newest.last_position - 1, read_by_all)
    seals = Seal.objects.filter(first_position__gt=horizon(), last_position__lte=upto).order_by("last_position")
    return takewhile(lambda seal: seal.sealed_at <= older_than, seals.iterator())
