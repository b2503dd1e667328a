"""Epochs: the histories of positions that a failover or a restore separates.

After a failover to a replica that lacks the last events, or after a restore, the sequencer gives positions that were
given before to other events. Each epoch begins with an event that names the last position that it shares with the
epoch before, and the events that are lost. A reader that knows its epoch can therefore tell whether its position still
means the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, models, transaction

from ..kernel import registry
from ..kernel.actors import THE_SYSTEM
from ..kernel.clock import now, rfc3339
from ..kernel.refusals import EpochEnded
from ..kernel.transition import Severity
from ..storage.journal_rules import JOURNAL
from ..storage.write_guard import allow_writes
from .chain_ends import lock_chain_end
from .event_names import EventKind
from .events import Event, build_entry
from .position import Numbering, Position, current_epoch

ENTITY_TYPE = ENTITY_ID = JOURNAL
STARTED = "epoch_started"
CURSOR = re.compile(r"(?:([1-9][0-9]{0,8})-)?([0-9]{1,18})")


class Reason(models.TextChoices):
    FAILOVER = "failover"
    RESTORE = "restore"
    MOVE = "move"  # to another database server


class Cursor(NamedTuple):
    """A position in an epoch, as readers keep it: `EPOCH-POSITION`, or only a position of the current epoch."""

    position: int
    epoch: int | None = None

    def __str__(self) -> str:
        return str(self.position) if self.epoch is None else f"{self.epoch}-{self.position}"

    @classmethod
    def parse(cls, text: str) -> Cursor | None:
        """Returns None if the text is no cursor."""
        found = CURSOR.fullmatch(text)
        return cls(int(found[2]), int(found[1]) if found[1] else None) if found and found[0].isascii() else None


class Losses(NamedTuple):
    """The events of the epoch before that a copy outside the database has, and the database does not have."""

    first: int
    last: int
    # How many are reports that an agent, or decisions that an operator, received a confirmation of.
    reports: int
    decisions: int
    # The first ones; the file has all of them.
    events: list[dict[str, Any]]
    file: str
    sha256: str

    @property
    def number(self) -> int:
        return self.last - self.first + 1


class Epoch(NamedTuple):
    number: int
    reason: str
    started_at: datetime
    # Its first position has the event that starts it; `kept` is the last position that it shares with the one before.
    kept: int
    event_id: str
    sequence: int
    # None if no copy of the lost events was found.
    losses: Losses | None

    def describe(self) -> str:
        """Returns a sentence without its full stop."""
        begun = f"epoch {self.number} began after a {self.reason}"
        if self.losses is None:
            return f"{begun}; positions up to {self.kept} were kept, and there is no copy of lost events here"
        lost = self.losses
        which = f"position {lost.first} was" if lost.number == 1 else f"positions {lost.first} to {lost.last} were"
        reports = f"{lost.reports} confirmed report{'' if lost.reports == 1 else 's'} of agents"
        decisions = f"{lost.decisions} decision{'' if lost.decisions == 1 else 's'} of operators"
        return f"{begun}: {which} lost, among them {reports} and {decisions}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "epoch": self.number,
            "reason": self.reason,
            "started_at": rfc3339(self.started_at),
            "kept": self.kept,
            "event_id": self.event_id,
            "lost": None if self.losses is None else {**self.losses._asdict(), "count": self.losses.number},
        }


def start_epoch(number: int, reason: Reason, losses: Losses | None, **numbering: Any) -> Epoch:
    """Records the first event of an epoch, at the next position. The caller holds the transaction and leads.

    The mark of the numbering is discarded, because the event has its position before the sequencer finds it.
    """
    row = Numbering.objects.select_for_update().get(pk=1)
    sequence, prev_hash = lock_chain_end(ENTITY_TYPE, ENTITY_ID)
    facts = {"epoch": number, "reason": reason.value, "kept": row.head, "lost": losses and losses._asdict()}
    entry = build_entry(
        entity_type=ENTITY_TYPE,
        entity_id=ENTITY_ID,
        sequence=sequence + 1,
        prev_hash=prev_hash,
        kind=EventKind.EPOCH.value,
        trigger=STARTED,
        from_state="",
        to_state="",
        severity=Severity.CRITICAL.value if losses else Severity.WARNING.value,
        actor=THE_SYSTEM.name,
        channel=THE_SYSTEM.channel.value,
        at=now(),
        details=_build_details(facts),
    )
    copied = {name: getattr(entry, name) for name in ("entity_type", "kind", "severity", "actor")}
    with allow_writes(connection):
        event = Event(**entry._asdict())
        event.save(force_insert=True)
        Position(position=row.head + 1, event=event, run_id="", **copied).save(force_insert=True)
    Numbering.objects.filter(pk=1).update(epoch=number, head=row.head + 1, seen="", **numbering)
    for listener in registry.listeners:
        transaction.on_commit(listener)
    return _read_epoch(event)


def _build_details(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "event_type": "epoch_start",
        "actor_kind": THE_SYSTEM.kind.value,
        "operator": None,
        "identity": None,
        "reason": None,
        "metadata": dict(facts),
        "context": {},
        "dwell_seconds": 0,
        "attempt": 0,
    }


def list_epochs() -> list[Epoch]:
    """Returns the epochs that began with an event, newest first, except those that were archived."""
    events = Event.objects.filter(entity_type=ENTITY_TYPE, entity_id=ENTITY_ID).order_by("-sequence")
    return [_read_epoch(event) for event in events]


def _read_epoch(event: Event) -> Epoch:
    facts = event.as_dict()["metadata"]
    losses = Losses(**facts["lost"]) if facts["lost"] else None
    return Epoch(
        facts["epoch"], facts["reason"], event.timestamp, facts["kept"], event.event_id, event.sequence, losses
    )


def find_last_shared_position(epoch: int) -> int:
    """Returns the last position that means the same in an epoch and in the current one; 0 if it is not known."""
    known = list_epochs()
    later = [each for each in known if each.number > epoch]
    # Archived epochs may have begun later too.
    is_unknown = not later or (later[-1] is known[-1] and later[-1].sequence > 1)
    return 0 if is_unknown else min(each.kept for each in later)


def require_current(cursor: Cursor) -> None:
    """Raises EpochEnded if the position of a cursor was lost, so that no reader takes other events for its own."""
    if not is_current(cursor):
        epoch, kept = current_epoch(), find_last_shared_position(cursor.epoch or 0)
        detail = f"epoch {cursor.epoch} has ended: read again what you know of positions after {kept}"
        raise EpochEnded(detail, epoch=epoch, kept=kept)


def is_current(cursor: Cursor) -> bool:
    """Whether the position of a cursor still means the same."""
    if cursor.epoch is None or cursor.epoch == current_epoch():
        return True
    return cursor.epoch < current_epoch() and cursor.position <= find_last_shared_position(cursor.epoch)
