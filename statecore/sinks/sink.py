"""What every sink is: a name, a place to go on from, and one deliver()."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from .numbered import Batch


class Sink:
    """deliver() runs in the transaction that moves the sink's cursor: what it writes to the database moves with it."""

    name: ClassVar[str]

    def recover(self, cursor: int) -> int:
        """Where to go on, before the first delivery and after each failure."""
        return cursor

    def deliver(self, batch: Batch) -> None:
        raise NotImplementedError

    def tick(self, at: datetime) -> None:
        """What depends on time passing rather than on events; called every few seconds, in no transaction."""

    def close(self) -> None:
        """The leader leaves."""
