"""Seals ranges of positions: every thousand events, and what is left over when a minute has passed."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, transaction

from ..journal import GENESIS
from ..kernel.clock import now
from ..kernel.latch import opened
from ..records import Seal
from ..records.position import head
from ..records.seal import chained, root_of
from .numbered import Batch, read
from .sink import Sink

SIZE = 1_000
OLDEST_UNSEALED = timedelta(minutes=1)


class Seals(Sink):
    name = "seals"

    def __init__(self) -> None:
        self.sealed = 0

    def recover(self, cursor: int) -> int:
        self.sealed = _sealed()
        return cursor

    def deliver(self, batch: Batch) -> None:
        while batch[-1].position - self.sealed >= SIZE:
            self.sealed = seal(SIZE).last_position

    def tick(self, at: datetime) -> None:
        """A quiet journal is sealed as well, though in shorter ranges."""
        self.sealed = _sealed()
        waiting = read(self.sealed, 1)
        if waiting and waiting[0].entry.timestamp <= at - OLDEST_UNSEALED:
            self.sealed = seal(min(SIZE, head() - self.sealed)).last_position


def _sealed() -> int:
    return Seal.objects.order_by("-last_position").values_list("last_position", flat=True).first() or 0


def seal(size: int) -> Seal:
    """The next range, chained to the last."""
    with transaction.atomic():
        before = Seal.objects.order_by("-last_position").first()
        first = before.last_position + 1 if before else 1
        batch = read(first - 1, size)
        last, root = batch[-1].position, root_of(first, [event.entry.hash for event in batch])
        prev_hash = before.hash if before else GENESIS
        with opened(connection):
            return Seal.objects.create(
                first_position=first,
                last_position=last,
                root=root,
                prev_hash=prev_hash,
                hash=chained(first, last, root, prev_hash),
                sealed_at=now(),
            )
