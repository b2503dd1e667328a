"""The number of stuck entities by machine, counted at most every few seconds for all viewers of a process."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from ...records import Incident
from ..incidents import read_summary
from ..stuck import Kind, count_stuck
from ..stuck.overdue import count_overdue
from .cached import Cached


class StuckCounts(NamedTuple):
    """Counts by machine: past the deadline, waiting for a decision or an approval, and the whole stuck list.

    `incidents` are the open ones, the most urgent first.
    """

    overdue: dict[str, int]
    waiting: dict[str, int]
    listed: dict[str, int]
    incidents: list[Incident]


def _count(at: datetime) -> StuckCounts:
    overdue, waiting, listed = Counter[str](), Counter[str](), Counter[str]()
    for entity_type, _state, count in count_overdue(at):
        overdue[entity_type] += count
    for (entity_type, kind), count in count_stuck(at).items():
        listed[entity_type] += count
        if kind in (Kind.NEEDS_APPROVAL, Kind.NEEDS_DECISION):
            waiting[entity_type] += count
    # Unary plus drops the zeros: machines without stuck entities are omitted.
    return StuckCounts(dict(+overdue), dict(+waiting), dict(+listed), read_summary())


cache = Cached(_count)
