"""Announces to waiting claims that tasks were queued: at the commit, because an agent waits for it.

The events of the sequencer come some 30 ms later. Waiting claims also poll, so a lost message is harmless.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import transaction

from ..machines.task import State
from ..transitions.change import Change
from ..transitions.unit_of_work import UnitOfWork
from . import broadcast

GROUP = "task-queue"
MESSAGE = "queue.news"  # the type of the messages
PAUSE = 0.01  # seconds between two messages: what comes meanwhile is sent together


class QueueNews(NamedTuple):
    """Says nothing of the tasks: which claims they suit follows from all that is queued by then."""

    def extend(self, following: QueueNews) -> QueueNews:
        return following

    def to_message(self) -> dict[str, Any]:
        return {"type": MESSAGE}


def announce_queued(work: UnitOfWork, changes: list[Change]) -> None:
    """Reacts to changes of tasks."""
    if any(change.entry.to_state == State.QUEUED for change in changes):
        transaction.on_commit(_announce, robust=True)


def _announce() -> None:
    broadcast.announce(GROUP, QueueNews(), PAUSE)
